"""dawn9 from Python: trains on NumPy arrays, predicts, and computes features, by ctypes over libdawn9. It needs only
this file, the library and NumPy.

    import dawn9
    model, result = dawn9.train("configs/airbench94.yaml", images, labels, set=["train.epochs=3"])
    labels, probabilities = model.predict(images)
    features = model.features(images)
    labels, probabilities = model.predict(["A text."])   # of a model of texts
    model.save("model.safetensors"); model = dawn9.Model("model.safetensors")

A Model may be used by several threads, one call at a time, and by a child of os.fork, but not on CUDA if the parent has
used it. model.close() frees it, and so does the end of `with dawn9.Model(path) as model:`. OpenMP's threads soon sleep
while they wait, as in the command, if this module is imported before NumPy and any other that loads OpenMP, and
OMP_WAIT_POLICY, GOMP_SPINCOUNT and KMP_BLOCKTIME are unset.

Images are uint8, (N, H, W, 3) or grey (N, H, W), for training square; labels are whole numbers from 0. Without arrays
the data set of the configuration is used. The library is $DAWN9_LIBRARY, or the first found in build/ and lib/ beside
this file's folder, in the installation that this file is part of, and in the system's library path. Errors of the
library raise dawn9.Error with the message that the command would print, wrong arguments ValueError; warnings are given
to warnings.warn."""

import contextlib
import ctypes as c
import ctypes.util
import glob
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import warnings
import weakref


@contextlib.contextmanager
def _waiting_briefly():
    """Makes OpenMP's threads sleep after they have waited for a fraction of a millisecond, if OpenMP is loaded in the
    `with` block, because OpenMP reads the environment when it is loaded. Does nothing if the user has set one of the
    variables."""
    if any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
        yield
        return
    os.environ.update(OMP_WAIT_POLICY="passive", GOMP_SPINCOUNT="10000")
    try:
        yield
    finally:
        del os.environ["OMP_WAIT_POLICY"], os.environ["GOMP_SPINCOUNT"]  # programs that this one starts choose themselves


with _waiting_briefly():  # NumPy's BLAS may be the first to load OpenMP
    import numpy as np

__all__ = ["Error", "Model", "train", "version"]


class Error(Exception):
    """An error of the library, with its message; .status is its dawn9_status."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status

    def __reduce__(self):
        return type(self), (*self.args, self.status), self.__dict__


# ---- the library ----


def _open_library():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    chosen = os.environ.get("DAWN9_LIBRARY")
    if chosen:
        try:
            return c.CDLL(chosen)
        except OSError as error:
            raise ImportError(f"DAWN9_LIBRARY: {error}") from None
    prefix = f"{here}/../.."  # of the installation, if this file is in share/dawn9/tools
    folders = [f"{here}/build", f"{here}/lib", f"{prefix}/lib", f"{prefix}/lib64"]
    folders += sorted(glob.glob(f"{glob.escape(prefix)}/lib/*-linux-gnu*"))
    for place in [f"{folder}/libdawn9.so" for folder in folders] + [ctypes.util.find_library("dawn9")]:
        if place and (os.path.exists(place) or "/" not in place):
            return c.CDLL(place)
    raise ImportError("libdawn9.so is not there: build dawn9, or set DAWN9_LIBRARY to its path")


class _Result(c.Structure):
    _fields_ = [("measure", c.c_char_p), ("score", c.c_double), ("score_tta", c.c_double), ("epoch_to_target", c.c_int64), ("best_epoch", c.c_int64),
                ("epochs", c.c_int64), ("steps", c.c_int64), ("train_images", c.c_int64), ("test_images", c.c_int64), ("parameters", c.c_int64),
                ("train_seconds", c.c_double), ("airbench_seconds", c.c_double), ("dawnbench_seconds", c.c_double),
                ("total_seconds", c.c_double), ("seed", c.c_uint64), ("backend", c.c_char * 32), ("precision", c.c_char * 8),
                ("device", c.c_char * 128), ("params_sha256", c.c_char * 65)]


class _Evaluation(c.Structure):
    _fields_ = [("measure", c.c_char_p), ("score", c.c_double), ("score_tta", c.c_double), ("images", c.c_int64), ("views", c.c_int)]


class _Epoch(c.Structure):
    _fields_ = [("epoch", c.c_int64), ("train_loss", c.c_double), ("train_accuracy", c.c_double), ("measure", c.c_char_p),
                ("score", c.c_double), ("score_tta", c.c_double), ("learning_rate", c.c_double), ("images_per_second", c.c_double), ("seconds", c.c_double)]


class _Progress(c.Structure):
    _fields_ = [("step", c.c_int64), ("steps", c.c_int64), ("loss", c.c_double), ("seconds", c.c_double), ("epoch", c.POINTER(_Epoch))]


_CALLBACK = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(_Progress))
_WARNING = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)
_BATCH = c.CFUNCTYPE(c.c_int, c.c_void_p)


class _TrainOptions(c.Structure):
    _fields_ = [("folder", c.c_char_p), ("resume", c.c_int), ("overwrite", c.c_int), ("progress", _CALLBACK), ("user", c.c_void_p)]


with _waiting_briefly():
    _lib = _open_library()
_lib.dawn9_open.argtypes = [c.POINTER(c.c_void_p)]
_lib.dawn9_on_warning.argtypes, _lib.dawn9_on_warning.restype = [c.c_void_p, _WARNING, c.c_void_p], None
_lib.dawn9_on_batch.argtypes, _lib.dawn9_on_batch.restype = [c.c_void_p, _BATCH, c.c_void_p], None
_lib.dawn9_config_load.argtypes = [c.c_void_p, c.c_char_p, c.POINTER(c.c_char_p), c.POINTER(c.c_void_p)]
_lib.dawn9_train.argtypes = [c.c_void_p, c.c_void_p, c.POINTER(_TrainOptions), c.POINTER(_Result), c.POINTER(c.c_void_p)]
_lib.dawn9_model_open.argtypes = [c.c_void_p, c.c_char_p, c.POINTER(c.c_char_p), c.POINTER(c.c_void_p)]
_lib.dawn9_model_save.argtypes = [c.c_void_p, c.c_char_p]
_lib.dawn9_evaluate.argtypes = [c.c_void_p, c.POINTER(_Evaluation)]
_lib.dawn9_predict.argtypes = [c.c_void_p, c.c_void_p, c.c_int64, c.c_void_p, c.c_void_p]
_lib.dawn9_predict_texts.argtypes = [c.c_void_p, c.POINTER(c.c_char_p), c.c_int64, c.c_void_p, c.c_void_p]
_lib.dawn9_features.argtypes = [c.c_void_p, c.c_void_p, c.c_int64, c.POINTER(c.c_int64), c.c_void_p]
for _name in ("dawn9_close", "dawn9_config_free", "dawn9_model_free"):
    getattr(_lib, _name).argtypes, getattr(_lib, _name).restype = [c.c_void_p], None
for _name in ("dawn9_model_height", "dawn9_model_width", "dawn9_model_vocabulary", "dawn9_model_classes"):
    getattr(_lib, _name).argtypes, getattr(_lib, _name).restype = [c.c_void_p], c.c_int64
for _name in ("dawn9_message", "dawn9_config_text", "dawn9_model_config"):
    getattr(_lib, _name).argtypes, getattr(_lib, _name).restype = [c.c_void_p], c.c_char_p
_lib.dawn9_model_class_name.argtypes, _lib.dawn9_model_class_name.restype = [c.c_void_p, c.c_int64], c.c_char_p
_lib.dawn9_version.restype = c.c_char_p


def version():
    return _lib.dawn9_version().decode()


def _end_child(error):
    """Ends a child of fork as a program ends: by an exception, or with status 0 if `error` is None."""
    code = 0 if error is None else 1
    try:
        if isinstance(error, SystemExit) and isinstance(error.code, (int, type(None))):
            code = error.code or 0
        elif isinstance(error, SystemExit):
            print(error.code, file=sys.stderr)
        elif error is not None:
            sys.excepthook(type(error), error, error.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 255)


class _Signals:
    """Keeps what Python's signal handlers and callbacks raise while C computes, because no exception passes through C.
    Handlers run where C calls Python back, in the main thread alone."""

    def __init__(self, process=None):
        self.process = process  # number of the process that trains; None: the call does not train

    def __enter__(self):
        self.raised, self.passes, self.before = [], False, {}  # passes: a callback runs, which catches exceptions
        if threading.current_thread() is threading.main_thread():
            for number in signal.valid_signals():
                if callable(signal.getsignal(number)):
                    self.before[number] = signal.getsignal(number)
                    signal.signal(number, self._handle)
        return self

    def stops(self, told=False):
        """What a callback returns to C: 1 to stop the call. A child of fork ends here instead of training on, because the
        run and its folder are its parent's."""
        if self.process not in (None, os.getpid()):
            _end_child(self.raised[0] if self.raised else None)
        return int(bool(told) or bool(self.raised))

    def _handle(self, number, frame):
        try:
            self.before[number](number, frame)
        except BaseException as error:  # pylint: disable=broad-except
            if self.passes:
                raise
            self.raised.append(error)

    def __exit__(self, *_):
        for number, handler in self.before.items():
            if signal.getsignal(number) == self._handle:  # otherwise a callback has set another
                signal.signal(number, handler)


_contexts = weakref.WeakSet()


def _after_fork():
    """In a child of fork: a context that another thread was using is lost, because that thread does not exist here."""
    for context in _contexts:
        if context.lock.acquire(blocking=False):
            context.lock.release()
        else:
            context.lock, context.handle, context.model = threading.RLock(), None, None


os.register_at_fork(after_in_child=_after_fork)


class _Context:
    """A context of the library and its model, which must be freed first. One object frees both, because Python's
    garbage collector finalizes the objects of a cycle in any order."""

    def __init__(self):
        self.handle, self.model = c.c_void_p(), c.c_void_p()
        self.lines, self.calls = [], []  # calls: the _Signals of each call that is running
        lines, calls = self.lines, self.calls  # the callbacks must not refer to the context: a cycle would delay freeing it
        self.lock = threading.RLock()  # held from a call until its message has been read
        self.on_warning = _WARNING(lambda _, line: lines.append(os.fsdecode(line)))
        if _lib.dawn9_open(c.byref(self.handle)) != 0:
            raise MemoryError("no memory for a dawn9 context")
        _lib.dawn9_on_warning(self.handle, self.on_warning, None)
        self.on_batch = _BATCH(lambda _: calls[-1].stops())  # a signal handler runs when Python is called
        _lib.dawn9_on_batch(self.handle, self.on_batch, None)
        _contexts.add(self)

    def message(self, status):
        """The message of a failed call. It is read before a signal handler can close the context."""
        return os.fsdecode(_lib.dawn9_message(self.handle)) if status else ""

    def check(self, status, message):
        self.warn()
        if status:
            raise Error(message, status)

    @contextlib.contextmanager
    def signals(self, process=None):
        with _Signals(process) as signals:
            self.calls.append(signals)
            try:
                yield signals
            finally:
                self.calls.pop()

    def call(self, function, *arguments):
        """Calls C, then raises what a signal handler has raised, or the library's error."""
        with self.lock:
            with self.signals() as signals:
                status = function(*arguments)
                message = self.message(status)
            if signals.raised:
                raise signals.raised[0]
            self.check(status, message)

    def warn(self):
        """Passes the collected warnings to warnings.warn, which names the line that called this module."""
        frame, level = sys._getframe(), 1
        here = frame.f_code.co_filename
        while frame.f_back and frame.f_code.co_filename == here:
            frame, level = frame.f_back, level + 1
        while self.lines:
            warnings.warn(self.lines.pop(0), stacklevel=level)

    def close(self):
        with self.lock:
            if self.calls:
                raise ValueError("the model computes in this thread: a signal handler cannot close it")
            handle, model, self.handle, self.model = self.handle, self.model, None, None
            _lib.dawn9_model_free(model)
            _lib.dawn9_close(handle)

    __del__ = close


def _c_string(text):
    if b"\0" in text:
        raise ValueError(f"embedded null character: {text!r}")
    return text


def _path(path):
    return _c_string(os.fsencode(path))


def _texts(texts):
    texts = [texts] if isinstance(texts, str) else list(texts)
    return (c.c_char_p * (len(texts) + 1))(*(_c_string(text.encode()) for text in texts), None)


def _dictionary(structure):
    """The fields as a dictionary; scores have the keys of result.json, accuracy and accuracy_tta or another measure."""
    measure = structure.measure.decode()
    values = {name.replace("score", measure): getattr(structure, name) for name, _ in structure._fields_}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def _unmasked(values, name):
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must not be masked: their masked elements would be used")
    return np.asarray(values)


def _checked(images):
    images = _unmasked(images, "images")
    if images.dtype != np.uint8 or not (images.ndim == 3 or images.ndim == 4 and images.shape[3] in (1, 3)):
        first = images.ndim == 4 and images.shape[1] in (1, 3)
        raise ValueError(f"images must be uint8, (N, H, W, 3) or (N, H, W); these are {images.dtype}, {images.shape}"
                         + (": images.transpose(0, 2, 3, 1) puts the channels last" if first else ""))
    if images.ndim == 3 and images.shape[2] == 3:  # no grey images, because a side has 4 pixels or more
        raise ValueError(f"images of shape {images.shape} are one image: images[None] is an array of one")
    return images


def _pixels(images, height, width):
    """The images as contiguous bytes, (N, height, width, 3)."""
    images = _checked(images)
    if images.ndim == 3 or images.shape[3] == 1:
        images = np.repeat(images.reshape(*images.shape[:3], 1), 3, axis=3)
    if images.shape[1:] != (height, width, 3):
        raise ValueError(f"images of {images.shape[1:]}, the model takes {(height, width, 3)}")
    return np.ascontiguousarray(images)


def _utf8(texts):
    """A list of str as an array for C."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ValueError("the model takes texts: a list of str")
    return (c.c_char_p * len(texts))(*(_c_string(text.encode()) for text in texts))


# ---- models ----


class Model:
    """A trained network, from a model.safetensors or a run's folder, or returned by train."""

    def __init__(self, path, set=()):
        self._context = context = _Context()
        context.call(_lib.dawn9_model_open, context.handle, _path(path), _texts(set), c.byref(context.model))

    def _get(self, function, *arguments):
        with self._context.lock:
            if not self._context.model:
                raise ValueError("the model is closed, or this process was forked while another thread used it")
            return function(self._context.model, *arguments)

    def _call(self, function, *arguments):
        with self._context.lock:
            self._context.call(self._get, function, *arguments)

    def close(self):
        """Frees the model, after the calls of other threads. Any later call but close raises ValueError. In a signal
        handler that interrupts a call of this model, close raises ValueError, and evaluate, predict and features Error."""
        self._context.close()

    def __reduce__(self):
        raise TypeError("a dawn9 Model is not copied or pickled: save it, and open the file again")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def shape(self):
        """(height, width, 3) of an image; (length,) of a text."""
        if self._get(_lib.dawn9_model_vocabulary):
            return self._get(_lib.dawn9_model_width),
        return self._get(_lib.dawn9_model_height), self._get(_lib.dawn9_model_width), 3

    @property
    def classes(self):
        return [self._get(_lib.dawn9_model_class_name, i).decode() for i in range(self._get(_lib.dawn9_model_classes))]

    @property
    def config(self):
        return self._get(_lib.dawn9_model_config).decode()

    def save(self, path):
        self._call(_lib.dawn9_model_save, _path(path))

    def evaluate(self):
        """A dictionary with the score on the test set of the model's configuration: see dawn9_evaluate in dawn9.h."""
        found = _Evaluation()
        self._call(_lib.dawn9_evaluate, c.byref(found))
        return _dictionary(found)

    def predict(self, samples):
        """labels (N), the most likely ones, and probabilities (N, classes) of images, or of a list of str for a model of
        texts. Rows of probabilities sum to 1, except those of a model of several labels (train.loss: sigmoid), where
        the probability of each label is independent of the others."""
        if self._get(_lib.dawn9_model_vocabulary):
            function, given = _lib.dawn9_predict_texts, _utf8(samples)
        else:
            samples = _pixels(samples, *self.shape[:2])
            function, given = _lib.dawn9_predict, samples.ctypes.data
        labels = np.empty(len(samples), np.int32)
        probabilities = np.empty((len(samples), self._get(_lib.dawn9_model_classes)), np.float32)
        self._call(function, given, len(samples), labels.ctypes.data, probabilities.ctypes.data)
        return labels, probabilities

    def features(self, images):
        """The inputs of the classifier, (N, width), for images."""
        if self._get(_lib.dawn9_model_vocabulary):
            raise ValueError("the model takes texts, features are computed of images")
        images = _pixels(images, *self.shape[:2])
        width = c.c_int64()
        self._call(_lib.dawn9_features, None, len(images), c.byref(width), None)
        features = np.empty((len(images), width.value), np.float32)
        self._call(_lib.dawn9_features, images.ctypes.data, len(images), None, features.ctypes.data)
        return features


# ---- training ----


def _save_arrays(folder, prefix, images, labels):
    if labels is None:
        raise ValueError("labels must be given, one for each image")
    images, labels = _checked(images), _unmasked(labels, "labels")
    if labels.ndim != 1 or labels.dtype.kind not in "biu":
        raise ValueError("labels must be a one-dimensional array of integers")
    for i in (labels.argmin(), labels.argmax()) if len(labels) else ():
        if not 0 <= int(labels[i]) <= 65535:
            raise ValueError(f"labels are whole numbers from 0 to 65535; label {i} is {labels[i]}")
    if len(images) != len(labels):
        raise ValueError(f"{len(labels)} labels for {len(images)} images")
    if not prefix and len(labels):
        missing = np.flatnonzero(np.bincount(labels.astype(int)) == 0)
        if len(missing):
            raise ValueError(f"no image has label {missing[0]}, but one has {labels.max()}")
    np.save(os.path.join(folder, f"{prefix}images.npy"), np.ascontiguousarray(images))
    np.save(os.path.join(folder, f"{prefix}labels.npy"), labels.astype("<i8"))


class _Data:
    """A temporary folder for arrays. Only the process that made it removes it, no child of fork."""

    def __init__(self):
        above = tempfile.gettempdir()
        try:
            os.fsencode(above).decode()
        except UnicodeDecodeError:
            raise ValueError(f"TMPDIR: the name {above!r} of the folder for temporary files must be UTF-8") from None
        self.name = tempfile.mkdtemp(prefix="dawn9-")
        weakref.finalize(self, self._remove, self.name, os.getpid())

    @staticmethod
    def _remove(folder, process):
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)


def _load_config(context, path, settings):
    loaded = c.c_void_p()
    context.call(_lib.dawn9_config_load, context.handle, _path(path), _texts(settings), c.byref(loaded))
    return loaded


def _effective(path, settings):
    context = _Context()
    loaded = _load_config(context, path, settings)
    text = _lib.dawn9_config_text(loaded).decode()
    _lib.dawn9_config_free(loaded)
    return text.splitlines()


def _run(config, settings, folder, overwrite, resume, progress):
    if folder is not None:
        if not _path(folder):
            raise ValueError("folder is empty; None, the default, is no record")
        folder = pathlib.Path(os.fsdecode(folder)).absolute()  # progress may change the current folder
    context, result = _Context(), _Result()
    loaded = _load_config(context, config, settings)
    with context.signals(os.getpid()) as signals:

        def call(_, at):
            try:
                try:
                    signals.passes = True
                    context.warn()
                    epoch = at.contents.epoch
                    told = progress and progress(at.contents.step, at.contents.steps, at.contents.loss, _dictionary(epoch.contents) if epoch else None)
                finally:
                    signals.passes = False
                return signals.stops(told)
            except BaseException as error:  # pylint: disable=broad-except
                signals.raised.append(error)
                return signals.stops()

        options = _TrainOptions(folder=None if folder is None else _path(folder), resume=int(resume), overwrite=int(overwrite), progress=_CALLBACK(call))
        status = _lib.dawn9_train(context.handle, loaded, c.byref(options), c.byref(result), c.byref(context.model))
        message = context.message(status)
    _lib.dawn9_config_free(loaded)
    model = Model.__new__(Model)
    model._context = context
    if signals.raised:
        raise signals.raised[0]
    context.check(status, message)
    return model, _dictionary(result)


def train(config, images=None, labels=None, test=None, set=(), folder=None, overwrite=False, progress=None, resume=False):
    """Trains `config`, a file or the name of an installed one, on arrays or on its own data set.

    test: (images, labels) to evaluate on; default: a sixth, drawn at random by position. set: as --set, for
    example ["train.epochs=3"]. folder: for the record of the run; None: no record. overwrite: delete a run that is
    there. progress(step, steps, loss, epoch): called after each step with epoch None, and after each epoch with a
    dictionary of its results; a true return value stops the run. A child of os.fork made by progress ends where progress
    returns or raises, and the run is its parent's. resume: continue the run in the folder, if one was stopped there with
    the same arguments. Returns the model and a dictionary of the result."""
    settings = [set] if isinstance(set, str) else list(set)
    if images is None:
        if labels is not None or test is not None:
            raise ValueError("labels and test= need images; without images the configuration's data set is used")
        return _run(config, settings, folder, overwrite, resume, progress)
    data = _Data()
    _save_arrays(data.name, "", images, labels)
    if test is not None:
        if not isinstance(test, (tuple, list)) or len(test) != 2:
            raise ValueError("test must be a pair: (images, labels)")
        _save_arrays(data.name, "test_", *test)
    ours = ["data.dataset=arrays", f"data.path={os.fsencode(data.name).decode()}", f"data.image_size={np.shape(images)[1]}"]
    asked, needed = _effective(config, ours + settings), _effective(config, settings + ours)
    if asked != needed:
        other = next(line.strip() for line in asked if line not in needed)
        raise ValueError(f"set contradicts the arrays: {other}; with arrays, data.dataset, data.path and data.image_size are theirs")
    model, result = _run(config, ours + settings, folder, overwrite, resume, progress)
    model._data = data  # for evaluate; deleted together with the model
    return model, result
