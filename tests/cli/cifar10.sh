# With the real CIFAR-10: checksums, the patch statistics of its first training images compared with PyTorch's, and
# dawn9 data fetch.
. "$(dirname "$0")/lib.sh"

replies 'len(d["files"]) == 6 and all(f["state"] == "ok" for f in d["files"])' "$dawn9" data check cifar10 --data "$data" --json

accepts "$dawn9" verify --cases "$source/tests/golden/cases/patch_whitening.safetensors" --data "$data" \
    --backend reference --precision f64 --json
json "$out" 'd["failed"] == 0 and d["skipped"] == 0' \
    'sorted(r["compared"] for r in d["rows"] if r["group"].startswith("whiten.")) == [27, 27 * 27]'

# ---- a changed pixel is rejected, unless checks are off ----
mkdir changed && cp "$data"/*.bin changed/
printf '\377' | dd of=changed/data_batch_4.bin bs=1 seek=1000000 conv=notrunc 2>/dev/null
cmp -s "$data/data_batch_4.bin" changed/data_batch_4.bin && printf '\0' | dd of=changed/data_batch_4.bin bs=1 seek=1000000 conv=notrunc 2>/dev/null
train="$dawn9 train $source/configs/ladder/01-baseline.yaml --out run --quiet --backend cpu --precision f32"
train="$train --set model.channels=[4,4,4,4] --set train.epochs=0.02 --set train.lr.knots=[0,20%,end] --set eval.every=0"
rejects 3 'changed/data_batch_4.bin SHA-1 [0-9a-f]{12}\.\.\. aab85764eb35' $train --data changed
accepts $train --data changed --no-check
accepts $train --data "$data" --out right
has right/config.yaml "^  check: on$"

# ---- a fetch names the files that it replaces ----
truncate -s 5 changed/test_batch.bin
observe env DAWN9_DATA="$data" "$dawn9" data fetch --data changed --json
[ $status = 0 ] && [ "$(cat "$err")" = 'dawn9: warning: changed/data_batch_4.bin: differs from the published file and is replaced
dawn9: warning: changed/test_batch.bin: differs from the published file and is replaced' ] || fail "of what it replaces a fetch says: status $status"
accepts "$dawn9" data check cifar10 --data changed

# ---- an archive that the user has downloaded (--from) ----
mkdir cifar-10-batches-bin && ln "$data"/*.bin cifar-10-batches-bin 2>/dev/null || cp "$data"/*.bin cifar-10-batches-bin
tar -cf given.tar cifar-10-batches-bin && rm -r cifar-10-batches-bin
accepts "$dawn9" data fetch --data fetched --from given.tar --json
json "$out" 'd["path"] == "fetched" and all(f["state"] == "ok" for f in d["files"])'
# ---- the archive is not read if the folder has all files, verified ----
: >given.tar
accepts "$dawn9" data fetch --data fetched --from given.tar
verdict
