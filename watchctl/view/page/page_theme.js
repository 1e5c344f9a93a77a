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

/* What the browser does with the page: prints it, on paper, which is white; goes to another address of it. */
function followPage() {
	addEventListener("beforeprint", () => {
		document.documentElement.dataset.theme = "light";
		colours();
		draw();
	});
	addEventListener("afterprint", setTheme);
	addEventListener("popstate", fromFragment);
	addEventListener("hashchange", fromFragment);
}
