/* Terms of other deep-learning tools: the key, option or command that does the same here or, if dawn9 lacks it, the
 * nearest. */
#include "cli/help.h"

#include <ctype.h>
#include <string.h>

typedef struct term {
    const char *names; /* separated by commas; "finder" is also found as "finders", "multi-gpu" as "multi GPU" */
    bool lacks;        /* dawn9 lacks it: the answer follows "dawn9 has no " */
    const char *answer;
} term;

static const term terms[] = {
    {"finetune,fine tune", false, "`configs/finetune.yaml` and `train.from` start from the weights of a trained model"},
    {"rotation,rotate,random rotation,affine,shear,translation,posterize,solarize,saturation,trivialaugment", false,
     "`trivial_augment` makes one random change of each image: rotation, shear, translation or colour"},
    {"autoaugment,randaugment,augmix", true, "search for augmentations; nearest: `trivial_augment`, which needs none"},
    {"aspect ratio,proportions,center crop,centre crop,padding,pad to square,resize", false,
     "`data.fit` stretches, crops or letterboxes images that are no square"},
    {"random erasing", false, "`cutout` erases a random square of each image"},
    {"cosine,cosine annealing,cosine decay,cosine schedule,cosine lr", false,
     "`train.lr` takes {shape: cosine, peak: 0.4, warmup: 5}"},
    {"one cycle,piecewise linear", false,
     "`train.lr`: the default rises and falls once, and knots make any other piecewise linear schedule"},
    {"step lr,multistep lr,multi step lr,step decay", false,
     "`train.lr` steps where two knots lie at one place: {knots: [30, 30], values: [0.1, 0.01], at: start}. With `at: "
     "start` it steps when PyTorch's MultiStepLR does; with `at: end`, the default, one update earlier"},
    {"reduce lr on plateau,lr on plateau", false,
     "`train.plateau` multiplies all further learning rates by its factor after an evaluation without a better score"},
    {"warm restart,cosine annealing warm restart,cosine warm restart,sgdr", true,
     "cosine with restarts; nearest: `train.lr`, whose knots make any piecewise linear schedule, with restarts too"},
    {"layer decay,layerwise decay,layer wise lr decay,llrd,discriminative learning rate,parameter group", false,
     "`fine_tune` divides the layers before the last into parts, each with its own factor of the learning rate"},
    {"freeze backbone,freeze layer,unfreeze,unfreezing,gradual unfreezing,linear probe,feature extraction", false,
     "`fine_tune` trains only the last layer for the share `tricks.fine_tune.head` of the steps; parts of the other "
     "layers with 0 in `tricks.fine_tune.rates` stay frozen. `freeze` freezes the first layers later in a run"},
    {"lr finder,learning rate finder,find lr,find learning rate,lr range test", false,
     "`train --find-lr` trains at growing rates and shows the loss at each"},
    {"grad clip,clip grad,gradient clip,clip gradient,gradient clipping,clip grad norm", false,
     "`clip_norm` limits the norm of the gradient of all parameters"},
    {"accumulation,gradient accumulation,grad accumulation,accumulate gradient,effective batch", false,
     "`train.accumulate` updates by the mean of the gradients of several batches"},
    {"lars,lamb,lion,adagrad,rmsprop,sam", true, "such optimizer; nearest: `train.optimizer` and the trick `muon`"},
    {"swa,stochastic weight averaging,weight averaging", true,
     "stochastic weight averaging; nearest: `ema` and `lookahead`"},
    {"drop path,droppath", false, "`stochastic_depth` drops residual branches of training images"},
    {"loss function,cross entropy,criterion", false,
     "`train.loss`: the cross-entropy of the softmax or the sigmoid; `label_smoothing`, `mixup`, `cutmix` and "
     "`train.class_weights` change it"},
    {"focal loss", true, "focal loss; nearest: `train.class_weights`"},
    {"oversampling,weighted sampler,weighted random sampler", true, "such sampler; nearest: `train.class_weights`"},
    {"overfit,overfitting,regularization,regularizer,l2", false,
     "`train.weight_decay`, `model.dropout`, `stochastic_depth`, `label_smoothing`, the augmentations `crop`, `flip`, "
     "`cutout`, "
     "`color_jitter`, `mixup` and `cutmix`; `eval.patience` and `keep` select an epoch by the images of "
     "`data.validation`"},
    {"train test split,train val split,validation split,holdout,hold out", false, "`data.validation`"},
    {"stratified,stratify,stratified split,stratified sampling", true,
     "stratified draw; nearest: of class folders without test/ each image is drawn for the test part with probability "
     "1/6, at least one of each class, and `data.split_column` of a table names the part of each row"},
    {"monitor,monitored metric", false,
     "the score of a run decides `keep` best, `eval.patience` and `train.plateau`: the accuracy, with `train.loss` "
     "sigmoid the area under the curve, of a language model the perplexity"},
    {"max time,maximum time,time limit,max second,wall time,walltime,timeout", true,
     "time limit of a run; nearest: `timeout 1h dawn9 train CONFIG` ends it with a checkpoint, from which `train "
     "--resume` continues; a search has a budget of hours (docs/experiments.md)"},
    {"tokenizer,tokenization,bpe,byte pair encoding,wordpiece,sentencepiece,subword", true,
     "choice of tokens, which are words; nearest: `data.vocabulary`, their largest number in texts; "
     "docs/your-own-texts.md says what separates them"},
    {"cross validation,k fold,kfold", true, "cross-validation; nearest: `data.validation`, and seeds: `train --runs`"},
    {"data loader,num workers,prefetch", true,
     "setting for that; nearest: `threads`; `dawn9 bench pipeline` measures how long a batch takes to make"},
    {"out of memory,oom,cuda out of memory,memory error", false,
     "lower `train.batch_size`; `dawn9 bench fit` finds the largest batch that fits the device or `--memory SIZE`"},
    {"nan,nan loss,loss nan,loss is nan,inf,diverge,divergence,diverging,exploding gradients", false,
     "exit status 5: training became non-finite. Lower the peak of `train.lr` or lengthen its warm-up; "
     "`train --find-lr` shows the loss at growing rates"},
    {"reproducible,reproducibility,deterministic,determinism", false,
     "`seed` sets all random numbers; docs/guarantees.md says which runs end with the same bits"},
    {"amp,autocast,automatic mixed precision,fp8", false, "`precision`, or `train --precision P`"},
    {"multi gpu,several gpus,distributed,distributed training,ddp,data parallel,multi node,horovod,mpi", false,
     "`mpirun -np N dawn9 train` and `experiment --ranks N` train a run by N processes (docs/parallel.md); `experiment "
     "--devices LIST` trains one run per GPU"},
    {"wandb,weights and biases,mlflow,comet", true,
     "such service; nearest: `train --tensorboard DIR`, and `train --html` for a browser; "
     "examples/wandb_forward.py forwards the lines of `train --events`"},
    {"logging,logger,log", false,
     "every run writes events.jsonl into its folder; `train --events` prints the same lines; `train --tensorboard "
     "DIR`"},
    {"learning curve,training curve,loss curve,loss plot", false,
     "`report` draws the curves of finished runs, `train --html` those of a running one"},
    {"validation loss,val loss,eval loss,test loss", false,
     "each evaluation has one, eval_loss in events.jsonl; `report` and `train --html` draw its curve"},
    {"confusion matrix", false,
     "`eval --confusion FILE` writes that of a model; the page of `report` has that of the runs"},
    {"mistake,error,worst error,wrong,misclassified,top losses,error analysis", false,
     "`eval --mistakes FILE` draws the misclassified test images, `predict --sheet FILE --worst-first` the images of a "
     "folder, the worst first"},
    {"auc,auroc,roc,roc auc,area under the curve", false,
     "`train.loss` sigmoid makes the area under the curve the measure of a run; `eval` shows it for two classes"},
    {"f1,f1 score,recall,precision recall,classification report", false,
     "`eval` and the page of `report`: precision, recall and F1 of each class, and their macro means"},
    {"metric,top 5,top5", true,
     "such measure: a run's is accuracy, area under the curve or perplexity; nearest: precision, recall and F1 of "
     "`eval`, and the logits of `eval --logits FILE`"},
    {"inference,infer,deploy,deployment,serving", false,
     "`predict` classifies images and texts, `export` writes ONNX for other runtimes"},
    {"load model,load weights,load checkpoint", false,
     "`train.from` starts from weights, `predict` and `eval` use a model, `train --resume` continues a run"},
    {"quantization,int8,pruning,prune,distillation,knowledge distillation", true,
     "compression of models; nearest: `export`, whose ONNX file other tools compress"},
    {"python,numpy,bindings,api", false, "docs/library.md: tools/dawn9.py in Python, engine/dawn9.h in C and C++"},
    {"gray,grayscale,greyscale", false, "`data.grey` trains on grey images"},
    {"multilabel,multi label", false, "`train.loss` sigmoid, with several labels an image in a table (`data.table`)"},
    {"custom dataset,own dataset,image folder", false, "`data.dataset` folder, or labelled with a table of labels"},
    {"transform", false, "augmentations are tricks: `dawn9 tricks` lists them"},
    {"resume training,continue training,restart", false,
     "`train --resume` continues a run from its checkpoint; `experiment` continues by itself"},
    {"text classification,sentiment", false, "`data.dataset` text or imdb, with the network `model.name` sentiment"},
    {"exit code,exit status,return code", false, "`dawn9 --help` lists them"},
    {"offline,no internet", false, "`data fetch NAME --from ARCHIVE` takes a downloaded archive"},
    {"flops,flop,macs,operations", false, "each run and `experiment --dry-run` count the operations of training"},
    {"progress,progress bar,tqdm", false, "`train` draws one in a terminal; `--quiet` draws none"},
    {"regression,mse,mae", true, "loss for regression; nearest: `train.loss`"},
    {"backbone,architecture", false, "`model.name`"},
    {"vit,vision transformer,transformer,efficientnet,mobilenet,convnext", true, "such network; nearest: `model.name`"},
    {"grid search,random search,asha,hyperparameter,hyperparameter search,hyperparameter tuning,sweep,optuna", false,
     "`experiment` trains every point of a grid, or a search with successive halving (docs/experiments.md)"},
    {"ablation,ablation study", false, "`ablate` measures each trick of a configuration"},
    {"profiler,profiling,profile", false, "`bench`: `dawn9 bench step` lists the time of every node"},
    {"version", false, "`dawn9 --version`"},
};

/* True if name and words agree in letters and digits, folded by d9_help_fold_letter; the words may add a plural "s". */
static bool is_alike(const char *name, size_t length, const char *words) {
    const char *end = name + length;
    for (;; name++, words++) {
        while (name < end && !isalnum((unsigned char)*name)) name++;
        while (*words && !isalnum((unsigned char)*words)) words++;
        if (name == end) return !*words || strcmp(words, "s") == 0;
        if (d9_help_fold_letter(*name) != d9_help_fold_letter(*words)) return false;
    }
}

static const term *find_term(const char *words) {
    for (const term *one = terms; one < terms + sizeof terms / sizeof *terms; one++)
        for (const char *name = one->names; *name; name += strspn(name, ",")) {
            const size_t length = strcspn(name, ",");
            if (is_alike(name, length, words)) return one;
            name += length;
        }
    return NULL;
}

d9_status d9_help_term(d9_cli *cli, const char *words, d9_text *text, bool *found) {
    const term *one = find_term(words);
    *found = one;
    if (one && one->lacks) return d9_fail(&cli->context, D9_USAGE, "\"%s\": dawn9 has no %s", words, one->answer);
    if (one) d9_wrap(one->answer, 0, 0, d9_help_width(cli), text);
    return D9_OK;
}
