// The policy of content allows <style> elements only with the nonce that the server has put into this page. antd takes
// it by its ConfigProvider; a few of the parts below antd make style elements without asking for it, so each element
// of that kind is given the nonce where it is made.

/** The nonce of this page; empty while developing, where there is no policy. */
export function pageNonce(): string {
  return document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
}

export function giveNonceToStyles(nonce: string): void {
  if (nonce === "") return;
  const create = document.createElement.bind(document);
  document.createElement = (name: string, options?: ElementCreationOptions) => {
    const element = create(name, options);
    if (element instanceof HTMLStyleElement) element.nonce = nonce;
    return element;
  };
}
