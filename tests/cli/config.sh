# Configurations that must be refused: status 2, the file and the place, what is wrong and what would be right.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml
train="$dawn9 train"

# ---- files ----
refuses 2 'none.yaml' $train none.yaml
printf 'target: [1,\n' >broken.yaml
refuses 2 'broken.yaml:[0-9]+:[0-9]+' $train broken.yaml
printf 'base: b.yaml\n' >a.yaml
printf 'base: a.yaml\n' >b.yaml
refuses 2 'a.yaml.*b.yaml.*a.yaml' $train a.yaml
printf 'base: self.yaml\n' >self.yaml
refuses 2 'self.yaml' $train self.yaml
printf 'base: gone.yaml\n' >orphan.yaml
refuses 2 'gone.yaml' $train orphan.yaml

# ---- keys: FILE:LINE:COLUMN, and the nearest that exists ----
with() { { tiny; printf '%s\n' "$1"; } >bad.yaml; }
with 'taget: 94'
refuses 2 'bad.yaml:9:1: .*taget.*target' $train bad.yaml
with 'target: 94'
refuses 2 'bad.yaml:9:1: .*target' $train bad.yaml
with 'eval: {evry: 1}'
refuses 2 'bad.yaml:9:[0-9]+: .*evry.*every' $train bad.yaml
with 'seed: many'
refuses 2 'bad.yaml:9:[0-9]+: .*seed.*whole number' $train bad.yaml
with 'keep: som'
refuses 2 'bad.yaml:9:[0-9]+: .*none.*model.*all' $train bad.yaml
sed 's/epochs: 2/epochs: -2/' tiny.yaml >bad.yaml
refuses 2 'bad.yaml:7:[0-9]+: .*epochs.*-2' $train bad.yaml
sed 's/\[0, 1, end\]/[0, 1]/' tiny.yaml >bad.yaml
refuses 2 'bad.yaml:7:[0-9]+: .*' $train bad.yaml
sed 's/end\]/soon]/' tiny.yaml >bad.yaml
refuses 2 'bad.yaml:7:[0-9]+: .*soon' $train bad.yaml

# ---- edits from the command line ----
refuses 2 'train.epoch.*train.epochs|epoch.*epochs' $train tiny.yaml --set train.epoch=3
refuses 2 'train.momentum' $train tiny.yaml --set train.momentum=2
refuses 2 'train.batch_size' $train tiny.yaml --set train.batch_size=0
refuses 2 'cleu.*celu' $train tiny.yaml --with cleu
refuses 2 'celu.*alhpa.*alpha' $train tiny.yaml --with celu:alhpa=0.1
refuses 2 'flop.*flip' $train tiny.yaml --without flop

# ---- what does not go together ----
refuses 2 'ghost_batchnorm|ghost group' $train tiny.yaml --with ghost_batchnorm:group_size=12
refuses 2 'patch_whitening.*odd' $train tiny.yaml --with patch_whitening:size=4
refuses 2 'train.batch_size is 512 but there are only 128' $train tiny.yaml --set train.batch_size=512

# ---- what this machine or build lacks: the words say what there is ----
refuses 2 'referense.*did you mean reference' $train tiny.yaml --backend referense
refuses 2 'f23.*did you mean f32' $train tiny.yaml --precision f23
"$dawn9" devices >"$out"
if grep -q '^onednn .*absent' "$out"; then
    refuses 4 'onednn.*libdnnl-dev' $train tiny.yaml --backend onednn
else
    refuses 4 'precision f64: backend onednn' $train tiny.yaml --backend onednn --precision f64
fi
verdict
