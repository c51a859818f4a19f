# The page of dawn9 report in a browser: its console has no errors, pictures are loaded, labels do not overlap, tables
# sort on a click.
. "$(dirname "$0")/lib.sh"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skips chromium "no browser here"
plots || skips gnuplot "not installed"
tiny >tiny.yaml
accepts "$dawn9" train tiny.yaml --runs 3 --out runs
# From 57 to 100%: an axis on which not every accuracy has room for its label.
asserts runs/seed*/result.json <<'PYTHON'
for name in sys.argv[1:]:
    result = json.load(open(name))
    for row, accuracy in [(result["epochs"][0], 57), (result["epochs"][-1], 100), (result, 100)]:
        row.update(accuracy=accuracy, accuracy_tta=accuracy)
    json.dump(result, open(name, "w"))
PYTHON
accepts "$dawn9" report runs
# Two arms, and a third with a name that a narrow screen shows in two lines.
mkdir compared
asserts <<'PYTHON'
import os, shutil
label = "without anything that a wide screen has room for, on one line of its"
arms = [{"name": name, "label": label if name == "c" else name, "baseline": None if name == "a" else "a", "edits": ["--set train.lr.peak=0.25"],
    "grid": {}, "config_hash": name} for name in "abc"]
runs = [{"arm": name, "seed": seed, "folder": f"runs/{name}/seed{seed}"} for name in "abc" for seed in (1, 2, 3)]
for run in runs:
    shutil.copytree(f"runs/seed{run['seed']}", "compared/" + run["folder"])
    result = json.load(open(f"compared/{run['folder']}/result.json"))
    result.update(config_hash=run["arm"], accuracy_tta=90 - ord(run["arm"]) / 10 + run["seed"] ** 2 * ord(run["arm"]) / 200)
    json.dump(result, open(f"compared/{run['folder']}/result.json", "w"))
json.dump({"title": "t", "question": "q", "kind": "grid", "target": 50, "arms": arms, "runs": runs, "seeds": [1, 2, 3]},
    open("compared/experiment.json", "w"))
PYTHON
accepts "$dawn9" report compared

# Copies of the pages with a script at the end, which measures the page, clicks, and replaces the page by its findings
# as JSON.
asserts <<'PYTHON'
page = open("runs/report.html").read()
visitor = """<script>
addEventListener("load", () => {
  const found = {};
  const drawn = [...document.querySelectorAll("figure svg")].filter(svg => svg.getClientRects().length);
  found.pictures = document.images.length + drawn.length;
  found.broken = [...document.images].filter(image => !image.naturalWidth).length
    + drawn.filter(svg => !(svg.getBBox().width > 100)).length;
  const narrow = drawn.filter(svg => svg.closest(".narrow"));
  found.narrow = narrow.length;
  found.fits = narrow.every(svg => svg.getBoundingClientRect().right <= innerWidth);
  const box = element => element.getBoundingClientRect();
  const words = svg => [...svg.querySelectorAll("text")].filter(text => text.textContent.trim());
  const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  found.written_over = drawn.flatMap(svg => words(svg).flatMap((one, i, all) => all.slice(i + 1)
    .filter(other => over(box(one), box(other))).map(other => one.textContent + " on " + other.textContent)));
  found.clipped = drawn.flatMap(svg => words(svg).filter(text => box(text).left < box(svg).left - 1
    || box(text).right > box(svg).right + 1 || box(text).top < box(svg).top - 1 || box(text).bottom > box(svg).bottom + 1)
    .map(text => text.textContent));
  found.wide = [...document.querySelectorAll(".scroll")].filter(table => table.scrollWidth > table.clientWidth).length;
  found.curves = drawn.filter(svg => words(svg).some(text => /^ *accuracy/.test(text.textContent) && !/difference/.test(text.textContent))).length;
  found.confusions = document.querySelectorAll("#plot-confusion, #table-confusions").length;
  const lengths = drawn.find(svg => svg.closest("#plot-accuracy")), said = word => words(lengths).find(text => text.textContent.trim() === word);
  found.legend_below = words(lengths).filter(text => box(text).top >= box(said("epoch")).bottom - 2).length;
  found.scroll = getComputedStyle(document.querySelector(".scroll")).backgroundImage.includes("gradient");
  const names = [...document.querySelectorAll("[id]")].map(element => element.id);
  found.repeated = names.length - new Set(names).size;
  const table = document.getElementById("table-runs"), heads = [...table.querySelectorAll("th button")];
  const seeds = () => [...table.tBodies[0].rows].map(row => row.cells[1].textContent).join(" ");
  const head = heads.find(button => button.textContent === "Seed");
  head.click(); found.once = seeds(); found.said = head.parentElement.getAttribute("aria-sort");
  head.click(); found.twice = seeds();
  const arm = heads.find(button => button.textContent === "Record");
  arm.click(); found.words = seeds();
  %s
  document.body.innerHTML = "<pre>" + JSON.stringify(found) + "</pre>";
});
</script>"""
open("runs/visited.html", "w").write(page.replace("</html>", visitor % "" + "</html>"))
open("runs/noisy.html", "w").write(page.replace("</html>", visitor % "nonsense();" + "</html>"))
compared = open("compared/report.html").read()
open("compared/visited.html", "w").write(compared.replace("</html>", visitor % "" + "</html>"))
PYTHON

visit() { # FILE [SIZE]: what the script found goes to found.json, the console's output to console
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size="${2-1000,800}" --user-data-dir="$scratch/browser" \
        --enable-logging=stderr --dump-dom "file://$PWD/$1" >dom 2>console </dev/null || fail "the browser ended with status $?"
    sed -n 's/.*<pre>\(.*\)<\/pre>.*/\1/p' dom >found.json
}

visit runs/visited.html
grep CONSOLE console && fail "the console is not silent"
json found.json 'd["pictures"] >= 3 and d["broken"] == 0 and d["repeated"] == 0 and d["narrow"] == 0'
json found.json 'd["written_over"] == d["clipped"] == [] and d["legend_below"] == 0 and d["scroll"]' # one curve has no legend
json found.json 'd["curves"] == 1 and d["confusions"] == 1' \
    'd["once"] == "3 2 1" and d["said"] == "descending" and d["twice"] == "1 2 3" and d["words"] == "1 2 3"'
visit runs/visited.html 500,800 # the narrowest window of Chromium
json found.json 'd["pictures"] >= 3 and d["broken"] == 0 and d["narrow"] >= 2 and d["fits"]' \
    'd["written_over"] == d["clipped"] == [] and d["legend_below"] == 0'
visit compared/visited.html 1400,900
json found.json 'd["wide"] == 0 and d["legend_below"] == 3 and d["written_over"] == d["clipped"] == [] and d["curves"] == 1'
visit compared/visited.html 500,800
json found.json 'd["fits"] and d["legend_below"] == 3 and d["written_over"] == d["clipped"] == []'
visit runs/noisy.html # the script throws: the check of the console sees it
grep -q CONSOLE console || fail "an error on the console goes unnoticed"
verdict
