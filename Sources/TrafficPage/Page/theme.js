// Before the first paint, so that the page does not flash in the other theme.
try {
  const { theme } = JSON.parse(localStorage.getItem("trafficd-page")) ?? {};
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Then it is the system's theme.
}
