# Missing, damaged and empty datasets are rejected with the name of a file or folder; dawn9 data check, preview, fetch.
. "$(dirname "$0")/lib.sh"
{ tiny | sed 's/^data: .*//'; echo 'data: {dataset: cifar10}'; } >cifar.yaml
{ tiny | sed 's/^data: .*//'; echo 'data: {dataset: folder}'; } >folder.yaml
tiny >tiny.yaml

# ---- CIFAR-10: six files, of which one is missing; zeros are valid records of class 0 ----
mkdir data
for name in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5; do
    truncate -s 30730000 data/$name.bin
done
rejects 3 'test_batch.bin' "$dawn9" train cifar.yaml --data data
rejects 3 'nowhere' "$dawn9" train cifar.yaml --data nowhere

# ---- data check: the state of each file; status 1 if one is not as published ----
rejects 1 'data_batch_1.bin|test_batch.bin' "$dawn9" data check --data data
says '^path  data$' '^data_batch_1.bin +wrong checksum' '^test_batch.bin +missing'
rejects 1 '.' "$dawn9" data check cifar10 --data data --json
json "$out" 'd["path"] == "data" and len(d["files"]) == 6' \
    '{f["name"]: f["state"] for f in d["files"]}["test_batch.bin"] == "missing"'
rejects 1 'nowhere data.fetch.cifar10' "$dawn9" data check cifar10 --data nowhere
odd=$(printf 'odd\377')
ln -s data "$odd"
rejects 1 '.' "$dawn9" data check cifar10 --data "$odd" --json
json "$out" 'd["path"] == "odd?"'
rm "$odd"
for action in check fetch; do rejects 2 '--data --json' "$dawn9" data $action --data nowhere --no-check; done
rejects 2 'synthetic' "$dawn9" data check synthetic
rejects 2 'cifar11 cifar10 cifar100' "$dawn9" data check cifar11

# ---- a link to itself or a file in place of a folder is not reported as missing ----
ln -s loop loop
rejects 1 'loop/data_batch_1 symbolic' "$dawn9" data check cifar10 --data loop
rejects 3 'loop/data_batch_1 symbolic' "$dawn9" train cifar.yaml --data loop
rejects 1 'cifar.yaml: folder' "$dawn9" data check cifar10 --data cifar.yaml
rejects 3 'cifar.yaml: folder' "$dawn9" train cifar.yaml --data cifar.yaml
grep -q fetch "$err" && fail "fetching is no remedy: $(cat "$err")"
for command in 'train tiny.yaml' 'train tiny.yaml --runs 2' 'train tiny.yaml --find-lr'; do
    rejects 6 'loop symbolic' "$dawn9" $command --out loop/run
done
printf 'config: tiny.yaml\nseeds: [1]\n' >arms.yaml
rejects 3 'loop symbolic' "$dawn9" experiment arms.yaml --out loop/run

# ---- a folder of class folders ----
mkdir -p pictures/cat pictures/dog
rejects 3 'pictures' "$dawn9" train folder.yaml --data pictures
for class in cat dog; do
    for i in 1 2 3; do echo 'no picture' >pictures/$class/$i.png; done
done
before=$(listing)
observe "$dawn9" train folder.yaml --data pictures
[ $status = 3 ] && [ "$before" = "$(listing)" ] || fail "damaged pictures: status $status"
sed -n 's/^dawn9: warning: \(pictures[^:]*png\): .* PNG, .*/\1/p' "$err" >named
{ LC_ALL=C sort -c named && [ "$(wc -l <named)" = 6 ] && [ "$(wc -l <"$err")" = 7 ]; } ||
    fail "damaged pictures are not named in order: $(cat "$err")"
[ "$(tail -n 1 "$err")" = 'dawn9: 6 images cannot be read, named above; --skip-damaged leaves them out' ] || fail "damaged pictures: $(tail -n 1 "$err")"
rejects 3 'pictures/none|none' "$dawn9" train folder.yaml --data pictures/none

# ---- preview: a PNG sheet, and the filters ----
accepts "$dawn9" data preview tiny.yaml --out sheet.png --filters filters.png --with patch_whitening --with cutout:size=8
says '^sheet.png: 8 training images' '^filters.png: 27 filters of '
for picture in sheet filters; do
    [ "$(head -c 4 $picture.png | od -An -tx1 | tr -d ' ')" = 89504e47 ] || fail "$picture.png is no PNG"
done
cp sheet.png first.png
accepts "$dawn9" data preview tiny.yaml --out sheet.png --with cutout:size=8
same sheet.png first.png "the same preview came out otherwise"
accepts "$dawn9" data preview tiny.yaml --out sheet.png --filters hard.png --with cutout:size=8 --with patch_whitening \
    --with 'hard_examples:widths=[2,3,4]'
says '^hard.png: 27 filters of '
same hard.png filters.png "the filters are not the network's"
same sheet.png first.png "the images that a step takes are other ones where it learns from the hard ones"
accepts "$dawn9" data preview tiny.yaml --out sheet.png --without crop --without flip
differ sheet.png first.png "no augmentation looks like some"
# Settings that only training needs do not matter: a trick's options, groups and accumulated batches; a set may be small.
accepts "$dawn9" data preview tiny.yaml --out other.png --with cutout:size=8 --with ema --set tricks.ema.every=2 \
    --batch-size 64 --set train.norm_groups=16 --set train.accumulate=2
same other.png first.png "the images depend on settings of training"
prints '^sheet.png: 5 training' "$dawn9" data preview tiny.yaml --out sheet.png --set data.synthetic_train=5 --batch-size 1 --epochs 0.3
rejects 2 '--out x.jpg PNG .png' "$dawn9" data preview tiny.yaml --out x.jpg
rejects 2 '--filters ./x.tiff PNG' "$dawn9" data preview tiny.yaml --filters ./x.tiff
accepts "$dawn9" data preview tiny.yaml --out SHEET.PNG
rejects 6 'none/sheet.png' "$dawn9" data preview tiny.yaml --out none/sheet.png
rejects 6 '/dev/full' "$dawn9" data preview tiny.yaml --out /dev/full
# ---- an archive from a pipe is rejected ----
observe sh -c "echo x | '$dawn9' data fetch cifar10 --data piped --from /dev/stdin"
[ $status = 3 ] && grep -q '^dawn9: /dev/stdin: not a regular file$' "$err" || fail "an archive from a pipe: $(cat "$err")"
verdict
