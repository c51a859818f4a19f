# dawn9 train on several processes computes what one process computes, up to rounding: every network, in f64.
. "$(dirname "$0")/lib.sh"
needs_mpi
sized() { # two epochs in f64; 61 synthetic test images, a number that the processes do not divide
    sed 's/threads: 1/threads: 0/; s/precision: f32/precision: f64/; s/epochs: [0-9]*/epochs: 2/; s/synthetic_test: 64/synthetic_test: 61/; $a keep: all'
}
network_files
dawn94_file
text_files
sed -i '/^train/s/}$/, bias_lr_multiplier: 2}/; s/name: sentiment/&, layers: 2/' sentiment.yaml
tiny >resnet9.yaml
sed -i 's/name: vgg/&, dropout: [0.25, 0.25, 0.5], dropout_in_evaluation: on/' vgg.yaml
sed -i '/^tricks/s/}$/, muon: {}, lookahead: {}, stochastic_depth: {rate: 0.6, mode: batch}}/' air.yaml
sed -i '/^train/s/batch_size/optimizer: adamw, momentum: 0.9, epsilon: 1.0e-3, &/; /^tricks/s/}$/, clip_norm: {most: 0.1}, fine_tune: {head: 0.4, rates: [0, 0.5]}, batch_schedule: {batches: [2]}}/' basic.yaml
sed -i '/^tricks/s/}$/, freeze: {}}/' bottleneck.yaml
stream_files
sed -i 's/dataset: corpus/&, path: corpus/; s/values: .8./values: [1]/' language.yaml
sed -i 60q corpus/train.txt
# Processes share the four columns of shared.yaml; each of them evaluates all three columns of language.yaml.
sed 's/streams: 3/streams: 4/' language.yaml >shared.yaml
sed -i 's/dataset: text/&, path: texts/' sentiment.yaml
for file in resnet9 dawn94 sentiment language shared $networks; do
    sized <$file.yaml >$file.wide.yaml
    case $file in vgg | sentiment | language | shared) groups=0 ;; *) groups=4 ;; esac # these have no batch norm
    train_on 1 $file.1 $file.wide.yaml --set train.norm_groups=$groups
    # Two processes have two norm groups each, four one. Dropout finds a sample's place by the number of processes.
    case $file in resnet9 | wide) counts=4 ;; shared) counts="2 4" ;; *) counts=2 ;; esac
    for count in $counts; do
        train_on $count $file.$count $file.wide.yaml --set train.norm_groups=$groups
        same_state $file.1 $file.$count
    done
done
verdict
