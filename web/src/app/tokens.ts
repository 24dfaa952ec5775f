// Colours. antd's own greys and accents miss the contrast of 4.5 to 1 that WCAG 2 (1.4.3) wants for text in places.
import type { ThemeConfig } from "antd";

/** What single parts take in place of that. */
export function partTokens(dark: boolean): NonNullable<ThemeConfig["components"]> {
  if (!dark) return {};
  return {
    Tabs: {
      itemSelectedColor: "#7db4ff",
      itemHoverColor: "#7db4ff",
      itemActiveColor: "#7db4ff",
      inkBarColor: "#7db4ff",
    },
    Button: { dangerColor: "#000" },
  };
}

export function tokens(dark: boolean): NonNullable<ThemeConfig["token"]> {
  const common = { borderRadius: 4, motion: false, fontFamily: "system-ui, 'Noto Sans SC', 'PingFang SC', sans-serif" };
  if (dark) {
    return {
      ...common,
      colorPrimary: "#3a78c8",
      colorError: "#ff9b96",
      colorLink: "#7db4ff",
      colorTextDescription: "rgba(255,255,255,0.68)",
      colorTextPlaceholder: "rgba(255,255,255,0.6)",
      colorTextTertiary: "rgba(255,255,255,0.66)",
      colorTextDisabled: "rgba(255,255,255,0.6)",
    };
  }
  return {
    ...common,
    colorPrimary: "#1554ad",
    colorLink: "#1554ad",
    colorSuccess: "#237804",
    colorWarning: "#ad4e00",
    colorError: "#b3141f",
    colorTextDescription: "rgba(0,0,0,0.65)",
    colorTextPlaceholder: "rgba(0,0,0,0.6)",
    colorTextTertiary: "rgba(0,0,0,0.62)",
    colorTextDisabled: "rgba(0,0,0,0.58)",
  };
}
