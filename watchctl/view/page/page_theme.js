/* Light and dark: as the system has it, or as was chosen. */

const THEMES = ["auto", "light", "dark"], prefersDark = matchMedia("(prefers-color-scheme: dark)");
let theme = "auto";

function setTheme() {
	document.documentElement.dataset.theme = theme === "auto" ? prefersDark.matches ? "dark" : "light" : theme;
	$("theme").textContent = "Theme: " + theme;
	colours();
	redraw();
}

function themeEvents() {
	/* A page that lies in a file may have no storage. */
	try {
		theme = THEMES.includes(localStorage.getItem("watchctl-theme")) ? localStorage.getItem("watchctl-theme") : "auto";
	} catch (e) {
		theme = "auto";
	}
	$("theme").addEventListener("click", () => {
		theme = THEMES[(THEMES.indexOf(theme) + 1) % 3];
		try {
			localStorage.setItem("watchctl-theme", theme);
		} catch (e) {
			theme = String(theme);
		}
		setTheme();
	});
	prefersDark.addEventListener("change", setTheme);
	setTheme();
}
