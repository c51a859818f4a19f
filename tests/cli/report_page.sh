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

# Copies of the pages with a script at the end, which measures the page, clicks, and sends its findings to all.html. This
# page shows the copies in frames of several widths, and contains all findings as JSON.
asserts <<'PYTHON'
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
  parent.postMessage([window.name, found], "*");
});
</script>"""
for run, end, copy in ("runs", "", "visited"), ("runs", "nonsense();", "noisy"), ("compared", "", "visited"):
    page = open(f"{run}/report.html").read()
    open(f"{run}/{copy}.html", "w").write(page.replace("</html>", visitor % end + "</html>"))
frames = (("runs", 1000), ("runs", 500), ("compared", 1400), ("compared", 500))
open("all.html", "w").write("""<pre></pre><script>
const found = {};
addEventListener("message", sent => {
  found[sent.data[0]] = sent.data[1];
  document.querySelector("pre").textContent = JSON.stringify(found);
});
</script><iframe src="runs/noisy.html"></iframe>""" + "".join(
    f'<iframe name="{run}{width}" width="{width}" height="900" style="border: 0" src="{run}/visited.html"></iframe>'
    for run, width in frames))
PYTHON
timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1500,900 \
    --user-data-dir="$scratch/browser" --virtual-time-budget=20000 --enable-logging=stderr \
    --dump-dom "file://$PWD/all.html" >dom 2>console </dev/null || fail "the browser ended with status $?"
sed -n 's/.*<pre>\(.*\)<\/pre>.*/\1/p' dom >found.json
grep CONSOLE console | grep -v noisy.html && fail "the console is not silent"
grep -q 'CONSOLE.*noisy.html' console || fail "an error on the console goes unnoticed" # that script throws
asserts <<'PYTHON'
found = json.load(open("found.json"))
assert sorted(found) == ["compared1400", "compared500", "runs1000", "runs500"]
for name, d in found.items():
    assert d["written_over"] == d["clipped"] == [], (name, d)
    assert d["legend_below"] == (0 if "runs" in name else 3), (name, d) # one curve has no legend
d = found["runs1000"]
assert d["pictures"] >= 3 and d["broken"] == d["repeated"] == d["narrow"] == 0 and d["scroll"], d
assert d["curves"] == d["confusions"] == 1, d
assert d["once"] == "3 2 1" and d["said"] == "descending" and d["twice"] == d["words"] == "1 2 3", d
d = found["runs500"]
assert d["pictures"] >= 3 and d["broken"] == 0 and d["narrow"] >= 2 and d["fits"], d
d = found["compared1400"]
assert d["wide"] == 0 and d["curves"] == 1, d
assert found["compared500"]["fits"]
PYTHON
verdict
