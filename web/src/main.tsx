import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { giveNonceToStyles, pageNonce } from "./app/nonce";

const nonce = pageNonce();
giveNonceToStyles(nonce);
const place = document.getElementById("page");
if (place === null) throw new Error("index.html has no element with the id `page`");
createRoot(place).render(
  <StrictMode>
    <App nonce={nonce} />
  </StrictMode>,
);
