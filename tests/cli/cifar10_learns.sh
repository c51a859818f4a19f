# Three epochs of a quarter-width dawn94 without EMA on the real CIFAR-10 end within a band. Five seeds in bf16 gave:
# loss of epoch 1 1.845 to 1.893, of epoch 2 1.402 to 1.447, of epoch 3 1.273 to 1.299, accuracy with TTA 81.9 to 84.2.
# The band is their mean plus and minus four standard deviations.
. "$(dirname "$0")/lib.sh"

accepts "$dawn9" train "$source/configs/dawn94.yaml" --without ema --set 'model.channels=[16, 32, 64, 128]' \
    --set train.epochs=3 --set 'train.lr={knots: [0, 20%, end], values: [0, 1.0, 0]}' --set eval.every=0 \
    --data "$data" --out run --json
json "$out" '1.780 < d["epochs"][0]["train_loss"] < 1.936' '1.345 < d["epochs"][1]["train_loss"] < 1.488' \
    '1.239 < d["epochs"][2]["train_loss"] < 1.322' '78.9 < d["accuracy_tta"] < 87.7'
verdict
