// Draws every plot of the page, and draws it anew when the colours change (dark mode, printing).
(() => {
  const configurations = JSON.parse(document.getElementById("plots").textContent);
  // Okabe and Ito's palette: told apart by people who do not see all colours.
  const palette = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999"];
  let charts = [];
  const draw = () => {
    charts.forEach((chart) => chart.destroy());
    const style = getComputedStyle(document.documentElement);
    Chart.defaults.color = style.getPropertyValue("--ink").trim();
    Chart.defaults.borderColor = style.getPropertyValue("--line").trim();
    Chart.defaults.font.size = 13;
    charts = configurations.map((configuration, index) => {
      const copy = structuredClone(configuration);
      copy.data.datasets.forEach((dataset, i) => {
        dataset.borderColor = dataset.backgroundColor = palette[i % palette.length];
        dataset.borderDash = i >= palette.length ? [6, 3] : [];
      });
      return new Chart(document.getElementById("plot-" + index), copy);
    });
    document.documentElement.dataset.plotsDrawn = charts.length;
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  matchMedia("print").addEventListener("change", draw);
})();
