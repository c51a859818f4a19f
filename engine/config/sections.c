/* The option tables of all keys except the options of tricks and models, and the list of all option tables. */
#include "config/config.h"
#include "data/dataset.h"

#define FIELD(name) offsetof(d9_config, name)
#define ENDLESS     INFINITY
#define TEXT(x)     #x
#define TEXT_OF(x)  TEXT(x) /* expands a macro and makes its value a string literal */

static const d9_option root_options[] = {
    {"title", D9_OPTION_TEXT, FIELD(title), "", 0, 0, NULL,
     "name of this configuration in reports; default: the name of the file. Never inherited"},
    {"target", D9_OPTION_REAL, FIELD(target), "94", 0, ENDLESS, NULL,
     "score of the evaluated part (test or validation) that the run is timed to; default: accuracy 94 (percent), area "
     "under the curve 0.8, perplexity 100"},
    {"backend", D9_OPTION_TEXT, FIELD(backend), "auto", 0, 0, "auto|reference|cpu|onednn|cuda",
     "compute backend, the device and kernels that train\n"
     "auto: the fastest on this machine\n"
     "reference: plain loops, slow; the others are compared with it\n"
     "cpu: own kernels for each instruction set, with AMX also oneDNN's\n"
     "onednn: oneDNN's kernels where it has them, for comparison\n"
     "cuda: an NVIDIA GPU"},
    {"precision", D9_OPTION_TEXT, FIELD(precision), "auto", 0, 0, "auto|f64|f32|tf32|bf16|fp16",
     "type of activations and weights (mixed precision: with bf16 and fp16 the optimizer, statistics and loss compute "
     "in f32)\n"
     "auto: the fastest of the backend, but bf16 on a CPU only for networks whose accuracy in it was measured to be at "
     "most 0.1 points lower, otherwise f32 (dawn9 devices says which)\n"
     "f64: 64-bit floating point, only on reference\n"
     "f32: 32-bit floating point\n"
     "tf32: f32 with factors rounded to 10 bits of fraction, only on cuda\n"
     "bf16: 16 bits with the range of f32\n"
     "fp16: 16 bits, half precision, on cuda and reference"},
    {"seed", D9_OPTION_INT, FIELD(seed), "1", 0, D9_SEED_MAX, NULL, "seed of all random numbers"},
    {"threads", D9_OPTION_INT, FIELD(threads), "0", 0, 4096, NULL,
     "CPU threads; 0: one per physical core this process may use"},
    {"keep", D9_OPTION_CHOICE, FIELD(keep), "model", 0, 0, "none|model|all|best",
     "weights kept after the run\n"
     "none: no weights\n"
     "model: the model of the last epoch\n"
     "all: also the checkpoint\n"
     "best: the model of the epoch with the best score, which needs data.validation, because the test set must not be "
     "used for selection"},
    {0},
};

static const d9_option backend_options[] = {
    {"fuse", D9_OPTION_BOOL, FIELD(backend_options.fuse), "on", 0, 0, NULL,
     "let the backend run several nodes as one rule"},
    {"tune", D9_OPTION_CHOICE, FIELD(backend_options.tune), "auto", 0, 0, "auto|on|off",
     "choice among implementations of an operation\n"
     "auto: benchmark them only where the backend gains from it, on cuda once for all runs\n"
     "on: benchmark them and use the fastest; the CPU backends do so only for convolutions of 4e9 operations or more "
     "that no rule fuses with other nodes, and take another than the first only if it saves a quarter of the time\n"
     "off: use the first one"},
    {"choices", D9_OPTION_TEXT, FIELD(backend_options.tuning_folder), "", 0, 0, NULL,
     "folder in which cuda keeps what it tuned, for later runs; default: ~/.cache/dawn9 (or $XDG_CACHE_HOME/dawn9)"},
    {"cpu_level", D9_OPTION_TEXT, FIELD(backend_options.cpu_level), "auto", 0, 0,
     "auto|plain|avx2|avx512|avx512-bf16|amx|v3|v4|v4bf16",
     "highest instruction set that the CPU backends use, by name or by x86-64 level\n"
     "auto: the best of the processor\n"
     "plain: no vector instructions beyond the compiler's default\n"
     "avx2: AVX2 and FMA\n"
     "avx512: AVX-512\n"
     "avx512-bf16: AVX-512 with products of bf16\n"
     "amx: matrix products of bf16 (AMX)\n"
     "v3: as avx2\n"
     "v4: as avx512\n"
     "v4bf16: as avx512-bf16"},
    {"loss_scale", D9_OPTION_REAL, FIELD(backend_options.loss_scale), "1", 0x1p-14, 0x1p24, NULL,
     "fp16 on cuda: factor of the summed loss; gradients are divided by it before they are used"},
    {"loss_scale_every", D9_OPTION_INT, FIELD(backend_options.loss_scale_every), "0", 0, 1e9, NULL,
     "fp16 on cuda: steps without overflow after which the loss scale doubles; an overflow halves it; 0: it is "
     "constant"},
    {0},
};

static const d9_option data_options[] = {
    {"dataset", D9_OPTION_TEXT, FIELD(data.dataset), D9_DATASET_DEFAULT, 0, 0, D9_DATASET_NAMES,
     "dataset to train on\n"
     "cifar10: CIFAR-10, 32x32 photos in 10 classes (dawn9 data fetch cifar10)\n"
     "cifar100: CIFAR-100, 100 classes\n"
     "folder: your own images, a subfolder for each class\n"
     "labelled: your own images, and a CSV with their labels\n"
     "arrays: NumPy files of images and labels\n"
     "imdb: reviews of films, positive and negative (dawn9 data fetch imdb)\n"
     "text: your own texts, a subfolder of .txt files for each class\n"
     "wikitext2: articles of Wikipedia, a stream of words (dawn9 data fetch wikitext2)\n"
     "corpus: your own stream of words, the files train.txt, valid.txt and test.txt\n"
     "synthetic: generated shapes, no files"},
    {"path", D9_OPTION_TEXT, FIELD(data.path), "", 0, 0, NULL,
     "folder of the dataset; default, for a published one: the first of $DAWN9_DATA, $DAWN9_DATA/NAME and "
     "~/.cache/dawn9/NAME (or $XDG_CACHE_HOME/dawn9/NAME) that has one of its files; NAME: cifar10, for example"},
    {"check", D9_OPTION_BOOL, FIELD(data.check), "on", 0, 0, NULL,
     "compare the files of the dataset with their known checksums while the run is planned"},
    {"validation", D9_OPTION_INT, FIELD(data.validation), "0", 0, 1e9, NULL,
     "training images or texts set aside and evaluated instead of the test set; 0: none. A corpus, labelled with "
     "groups "
     "or a split column, and a folder with val/ have a validation part of their own, which any other number selects"},
    {"image_size", D9_OPTION_INT, FIELD(data.image_size), TEXT_OF(D9_SIDE_DEFAULT), 4, 1024, NULL,
     "image side, pixels: images of files are resized to it, those of arrays must have it, synthetic ones are drawn in "
     "it"},
    {"fit", D9_OPTION_CHOICE, FIELD(data.fit), "stretch", 0, 0, "stretch|crop|letterbox",
     "images of files that are not square, in training and prediction\n"
     "stretch: the whole image, in other proportions\n"
     "crop: the largest square in the middle\n"
     "letterbox: the whole image, between black bars"},
    {"input_size", D9_OPTION_INT, FIELD(data.input_size), "0", 0, 1024, NULL,
     "side of the images that the network sees, pixels: in training random crops of the stored images; evaluated "
     "images "
     "are resized to it. 0: the stored images"},
    {"grey", D9_OPTION_BOOL, FIELD(data.grey), "off", 0, 0, NULL,
     "images of files: store them in grey, in a third of the memory; the network sees three equal channels"},
    {"length", D9_OPTION_INT, FIELD(data.length), TEXT_OF(D9_LENGTH_DEFAULT), 1, D9_LENGTH_MAX, NULL,
     "tokens of a text: of a longer one the last are kept, a shorter one is padded at its end. Of a corpus: tokens of "
     "a window, which a step reads from each column"},
    {"vocabulary", D9_OPTION_INT, FIELD(data.vocabulary), TEXT_OF(D9_VOCABULARY_DEFAULT), 5, 1e7, NULL,
     "largest number of tokens: the four that are no words and the most frequent words of the training texts. A "
     "corpus keeps all its words"},
    {"table", D9_OPTION_TEXT, FIELD(data.table), "labels.csv", 0, 0, NULL,
     "labelled: CSV file with a row for each image, in the folder of the dataset or with a path from there"},
    {"file_column", D9_OPTION_TEXT, FIELD(data.file_column), "file", 0, 0, NULL,
     "labelled: column of the files, paths below the folder, or names that occur once there"},
    {"label_column", D9_OPTION_TEXT, FIELD(data.label_column), "label", 0, 0, NULL,
     "labelled: column of the labels; with train.loss sigmoid any number of them in a cell"},
    {"group_column", D9_OPTION_TEXT, FIELD(data.group_column), "", 0, 0, NULL,
     "labelled: column of groups, such as patients: all images of a group are in the same part; default: none"},
    {"split_column", D9_OPTION_TEXT, FIELD(data.split_column), "", 0, 0, NULL,
     "labelled: column that says of each image whether it is in train, valid or test; default: none"},
    {"shares", D9_OPTION_REALS, FIELD(data.shares), "[0.7, 0.1, 0.2]", 0, 1, NULL,
     "labelled with groups and no column for the split: shares of the groups, sorted by number or name, for training, "
     "validation and test"},
    {"separator", D9_OPTION_TEXT, FIELD(data.separator), "'|'", 0, 0, NULL,
     "labelled, train.loss sigmoid: text between the labels of a cell"},
    {"no_label", D9_OPTION_TEXT, FIELD(data.no_label), "", 0, 0, NULL,
     "labelled, train.loss sigmoid: cell of an image without labels, such as No Finding; an empty cell says the same"},
    {"largest_picture", D9_OPTION_INT, FIELD(data.largest_picture), "64", 1, D9_MEGAPIXELS_MAX, NULL,
     "largest image of a folder, megapixels; a larger one is rejected before it is decoded"},
    {"skip_damaged", D9_OPTION_BOOL, FIELD(data.skip_damaged), "off", 0, 0, NULL,
     "folder, labelled, text, imdb: leave out files that cannot be read, labelled also rows without their image, "
     "with warnings"},
    {"skip_empty", D9_OPTION_BOOL, FIELD(data.skip_empty), "off", 0, 0, NULL,
     "folder, text: leave out class folders without images or texts, with a warning for each"},
    {"synthetic_train", D9_OPTION_INT, FIELD(data.synthetic_train), "2048", 1, 1e7, NULL,
     "training images of the synthetic set"},
    {"synthetic_test", D9_OPTION_INT, FIELD(data.synthetic_test), "512", 1, 1e7, NULL,
     "test images of the synthetic set"},
    {"normalize", D9_OPTION_CHOICE, FIELD(data.normalize), "dataset", 0, 0, "dataset|unit|imagenet",
     "normalisation of pixels\n"
     "dataset: subtracts the mean of each channel of the training images and divides by its standard "
     "deviation\n"
     "unit: scales to 0..1\n"
     "imagenet: takes the means and deviations of ImageNet, which weights of torchvision expect"},
    {0},
};

static const d9_option eval_options[] = {
    {"every", D9_OPTION_REAL, FIELD(eval.every), "1", 0, 1e6, NULL, "epochs between evaluations; 0: only at the end"},
    {"tta", D9_OPTION_CHOICE, FIELD(eval.tta), "last", 0, 0, "last|every",
     "evaluations with all views of test-time augmentation (TTA)\n"
     "last: only at the end and, with keep: best, of each epoch whose model is kept; the other evaluations compute the "
     "plain view, which also decides keep: best, eval.patience and train.plateau\n"
     "every: every evaluation, and the score with TTA decides"},
    {"streams", D9_OPTION_INT, FIELD(eval.streams), TEXT_OF(D9_STREAMS_DEFAULT), 1, 1e6, NULL,
     "columns into which the evaluated part of a corpus is cut; each loses its first word and the states before it, so "
     "scores with other numbers are not comparable"},
    {"patience", D9_OPTION_INT, FIELD(eval.patience), "0", 0, 1e6, NULL,
     "early stopping: end training after this many epochs in a row without a better score; 0: never. Needs eval.every: "
     "1, and data.validation, because the test set must not be used for selection"},
    {0},
};

static const d9_option train_options[] = {
    {"epochs", D9_OPTION_REAL, FIELD(train.epochs), "24", 1e-3, 1e6, NULL,
     "passes over the training part; may be fractional"},
    {"batch_size", D9_OPTION_INT, FIELD(train.batch_size), "512", 1, 1e6, NULL,
     "images, texts or windows of a stream per batch, of all processes together"},
    {"accumulate", D9_OPTION_INT, FIELD(train.accumulate), "1", 1, 1000, NULL,
     "gradient accumulation: batches per update, by the mean of their gradients. The effective batch has accumulate x "
     "batch_size samples, and takes the memory of one batch; batch norm has the statistics of each batch"},
    {"norm_groups", D9_OPTION_INT, FIELD(train.norm_groups), "0", 0, 1e6, NULL,
     "groups of a batch over which batch norm computes statistics, unless a trick sets their size; 0: one, or with "
     "several processes one for each"},
    {"weight_decay", D9_OPTION_REAL, FIELD(train.weight_decay), "5.0e-4", 0, 1e3, NULL,
     "weight decay, for a mean loss"},
    {"momentum", D9_OPTION_REAL, FIELD(train.momentum), "0.9", 0, 0.999999, NULL,
     "momentum, below 1; Nesterov momentum unless train.momentum_form is plain; beta1 of adam and adamw"},
    {"bias_lr_multiplier", D9_OPTION_REAL, FIELD(train.bias_lr_multiplier), "1", 1e-6, 1e6, NULL,
     "factor of the learning rate of biases; their weight decay is divided by it"},
    {"momentum_form", D9_OPTION_CHOICE, FIELD(train.momentum_form), "page", 0, 0, "page|torch|plain",
     "form of the momentum of sgd\n"
     "page: folds the learning rate into the velocity\n"
     "torch: applies the learning rate outside, as PyTorch\n"
     "plain: torch without Nesterov"},
    {"decoupled", D9_OPTION_BOOL, FIELD(train.decoupled), "off", 0, 0, NULL,
     "learning rate and weight decay as airbench states them, so that each can be changed alone: for a summed loss, "
     "per 1024 images, times 1 + 1 / (1 - momentum); the decay is that of a step at the peak learning rate. Not the "
     "decoupled weight decay of adamw"},
    {"optimizer", D9_OPTION_CHOICE, FIELD(train.optimizer), "sgd", 0, 0, "sgd|adam|adamw",
     "update rule of the parameters; adam and adamw need about a hundredth of the default of train.lr, which is for "
     "sgd\n"
     "sgd: stochastic gradient descent with momentum\n"
     "adam: adds the weight decay to the gradient\n"
     "adamw: subtracts the weight decay from the weights"},
    {"beta2", D9_OPTION_REAL, FIELD(train.beta2), "0.999", 0, 0.99999999, NULL,
     "adam and adamw: share of the old average of squared gradients, below 1"},
    {"epsilon", D9_OPTION_REAL, FIELD(train.epsilon), "1.0e-8", 1e-30, 1e3, NULL,
     "adam and adamw: added to the square root of that average"},
    {"loss", D9_OPTION_CHOICE, FIELD(train.loss), "cross_entropy", 0, 0, "cross_entropy|sigmoid",
     "loss of an image\n"
     "cross_entropy: of the softmax; each image has one class\n"
     "sigmoid: the mean over the labels of the cross-entropy of the sigmoid; each image has any number of the labels "
     "of data.dataset labelled, and the measure of a run is the area under the curve"},
    {"class_weights", D9_OPTION_CHOICE, FIELD(train.class_weights), "none", 0, 0, "none|balanced",
     "weight of a sample in the loss, for imbalanced classes\n"
     "none: 1\n"
     "balanced: inversely proportional to the size of its class; not for a stream of words"},
    {"plateau", D9_OPTION_REAL, FIELD(train.plateau), "1", 1e-6, 1, NULL,
     "factor of all further learning rates after each evaluation without a better score; 1: off. Needs "
     "data.validation, "
     "because the test set must not be used for selection, and eval.every above 0"},
    {"image_gradient", D9_OPTION_BOOL, FIELD(train.image_gradient), "off", 0, 0, NULL,
     "also compute the gradient with respect to the input images, to measure its cost"},
    {"lr", D9_OPTION_SCHEDULE, FIELD(train.lr), "{knots: [0, 20%, end], values: [0, 0.4, 0]}", 0, 1e6, NULL,
     "learning rate schedule for a mean loss, with warm-up and decay linear between knots (a number of epochs, P% of "
     "the run, end, end-N), or a cosine: {shape: cosine, peak: N, warmup: KNOT}"},
    {"from", D9_OPTION_TEXT, FIELD(train.from), "", 0, 0, NULL,
     "initial weights of a pretrained model, for fine-tuning (transfer learning): a model.safetensors, the folder of a "
     "run, a file with torchvision's names (.safetensors or .pth), relative to the working directory, or resnet18: "
     "torchvision's weights (dawn9 data fetch resnet18). If the classes differ, in number or by name, the last layer "
     "is "
     "initialised as usual. A record stores the SHA-256 of the file"},
    {0},
};

static const d9_option published_options[] = {
    {"accuracy", D9_OPTION_REAL, FIELD(published.scores[0]), "", 0, 100, NULL, "mean test accuracy, percent"},
    {"auc", D9_OPTION_REAL, FIELD(published.scores[1]), "", 0, 1, NULL, "mean test area under the curve"},
    {"perplexity", D9_OPTION_REAL, FIELD(published.scores[2]), "", 0, ENDLESS, NULL, "mean test perplexity"},
    {"seconds", D9_OPTION_REAL, FIELD(published.seconds), "", 0, ENDLESS, NULL, "training time, seconds"},
    {"epochs", D9_OPTION_REAL, FIELD(published.epochs), "", 0, ENDLESS, NULL, "epochs of that run"},
    {"hardware", D9_OPTION_TEXT, FIELD(published.hardware), "", 0, 0, NULL, "hardware of that run"},
    {"source", D9_OPTION_TEXT, FIELD(published.source), "", 0, 0, NULL, "place of publication"},
    {0},
};

static const d9_section sections[] = {
    {"root", "the run as a whole", root_options},
    {"backend_options", "how the backend plans", backend_options},
    {"data", "the dataset", data_options},
    {"eval", "evaluation", eval_options},
    {"train", "the optimizer and its schedule", train_options},
    {"published", "what the author of this file's recipe reported; data for reports, never inherited",
     published_options},
};
enum { SECTION_COUNT = sizeof sections / sizeof sections[0] };

const d9_section *d9_section_at(int index) { return index >= 0 && index < SECTION_COUNT ? &sections[index] : NULL; }

static const char model_choices[] = /* "|resnet9|vgg|..." */
#define D9_MODEL(name) "|" #name
#include "models/models.def"
#undef D9_MODEL
    ;
static const d9_option model_name[] = {
    {"name", D9_OPTION_TEXT, 0, D9_MODEL_DEFAULT, 0, 0, model_choices + 1,
     "the network; another name drops inherited model options"},
    {0},
};

const d9_option *d9_section_model_name(void) { return model_name; }

/* ---- for help and the reference page ---- */

static const char *const model_sections[] = {
#define D9_MODEL(name) "model (" #name ")",
#include "models/models.def"
#undef D9_MODEL
};
static const char *const trick_sections[] = {
#define D9_TRICK(name) "tricks." #name,
#include "tricks/tricks.def"
#undef D9_TRICK
};
enum { MODEL_COUNT = sizeof model_sections / sizeof model_sections[0] };

bool d9_config_section(int index, const char **section, const char **doc, const d9_option **options) {
    static const d9_option none[] = {{0}};
    const int model = index - SECTION_COUNT - 1, trick = model - MODEL_COUNT;
    d9_section found = {"model", "the network, by its name, and its options", model_name};
    if (index < 0 || trick >= D9_TRICK_COUNT) return false;
    if (index < SECTION_COUNT)
        found = sections[index];
    else if (trick >= 0)
        found = (d9_section){trick_sections[trick], d9_trick_at(trick)->doc, d9_trick_at(trick)->options};
    else if (model >= 0)
        found = (d9_section){model_sections[model], d9_model_at(model)->doc, d9_model_at(model)->options};
    *section = found.name, *doc = found.doc, *options = found.options ? found.options : none;
    return true;
}
