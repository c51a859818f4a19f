#!/bin/sh
# One thread and two train the same parameters: networks with Winograd convolutions and with convolutions of stride 2,
# 1 x 1, 7 x 7 and 2 x 2, in f32 and in bf16. bf16 is left out with AMX, because oneDNN computes it there, and its bits
# may depend on the threads.
. "$(dirname "$0")/lib.sh"

# same_on_two_threads NAME BATCH ARGUMENT...: trains two steps on one thread and on two, which must give the same parameters.
same_on_two_threads() {
    name=$1 batch=$2
    shift 2
    for precision in f32 bf16; do
        if [ $precision = bf16 ] && grep -qw amx_bf16 /proc/cpuinfo && [ "${DAWN9_CPU_CEILING-}" != avx2 ]; then continue; fi
        for threads in 1 2; do
            runs "$dawn9" train "$@" --quiet --out "$name.$precision.$threads" --precision $precision \
                --threads $threads --epochs 1 --set train.batch_size=$batch --set data.dataset=synthetic \
                --set data.synthetic_train=$((2 * batch)) --set data.synthetic_test=$batch
        done
        same_bits $name.$precision.1 $name.$precision.2
    done
}
same_on_two_threads dawn94 32 "$source/configs/dawn94.yaml" --set 'model.channels=[16,32,64,128]'
same_on_two_threads speed94 32 "$source/configs/speed94.yaml" --set 'model.widths=[32,64,64]'
same_on_two_threads resnet50 4 "$source/configs/base.yaml" --set model.name=resnet --set model.depth=50 --set model.width=16 \
    --set data.image_size=64
same_on_two_threads wide_resnet 16 "$source/configs/wide-resnet.yaml" --set model.depth=10 --set model.width=1 \
    --with stochastic_depth:rate=0.5
same_on_two_threads densenet 4 "$source/configs/base.yaml" --set model.name=densenet --set model.blocks=[3,3,3]
verdict
