# What only the real CIFAR-10 can show: the published checksums, and the patch statistics of its first training images
# against another framework's. Without the data: skipped.
"$1" data check cifar10 >/dev/null 2>&1 || {
    echo "skipped: cifar10: it is not there; ./setup.sh --data gets it"
    exit 77
}
data=$("$1" data check cifar10 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["path"])')
case $data in /*) ;; *) data=$PWD/$data ;; esac
. "$(dirname "$0")/lib.sh"

accepts "$dawn9" data check cifar10 --data "$data" --json
json "$out" 'len(d["files"]) == 6 and all(f["state"] == "ok" for f in d["files"])'

accepts "$dawn9" verify --cases "$source/tests/golden/cases/patch_whitening.safetensors" --data "$data" \
    --backend reference --precision f64 --json
json "$out" 'd["failed"] == 0 and d["skipped"] == 0'
json "$out" '{r["group"] for r in d["rows"] if r["compared"] > 0} >= {"whiten.covariance", "whiten.eigenvalues"}'
verdict
