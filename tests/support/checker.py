"""Answers the questions of tests/cli/lib.sh, so that no check starts a Python of its own.

usage: checker.py FOLDER PROCESS     ends when the process has ended

A question comes through the FIFO FOLDER/ask: a working folder, a name and arguments, each ended by a zero byte. The
answer, "yes" or "no", goes to the FIFO FOLDER/answer. Failed expressions and errors are written to FOLDER/err."""
import json, os, re, signal, sys

folder, process = sys.argv[1], int(sys.argv[2])
remembered = set()


def result(run):
    return json.load(open(run + "/result.json"))


def holds(path, *expressions):
    """True if each expression holds for `d`, the content of the JSON file. Writes the others to FOLDER/err."""
    with open(folder + "/err", "w"), open(path) as file:
        names = {"json": json, "sys": sys, "result": result, "d": json.load(file)}
    wrong = [expression for expression in expressions if not eval(expression, names)]
    with open(folder + "/err", "w") as err:
        err.writelines(expression + "\n" for expression in wrong)
    return not wrong


def complaint(words):
    """True if FOLDER/err is one line that begins "dawn9: " and matches each pattern in `words`, separated by spaces."""
    with open(folder + "/err", "rb") as file:
        line, *rest = os.fsdecode(file.read()).split("\n")

    def has(word):
        left = r"(?<!\w)" if re.match(r"\w", word, re.A) else ""
        right = r"(?!\w)" if re.search(r"\w\Z", word, re.A) else ""
        return re.search(f"{left}(?:{word}){right}", line, re.A)

    return rest == [""] and line.startswith("dawn9: ") and all(map(has, words.split()))


def remember_files():
    """Remembers the files and folders below the working folder, for `as_before`."""
    global remembered
    remembered = files()
    return True


def as_before():
    return files() == remembered


def has_no_partial_file():
    """True if there is no half-written file below the working folder."""
    return not any(".part" in os.path.basename(path) for path in files())


def files():
    return {os.path.join(path, name) for path, folders, names in os.walk(".") for name in folders + names}


def end_with_process(*_):
    try:
        os.kill(process, 0)
    except OSError:
        os._exit(0)


signal.signal(signal.SIGALRM, end_with_process)
signal.setitimer(signal.ITIMER_REAL, 1, 1)
while True:
    with open(folder + "/ask", "rb") as ask:
        place, name, *arguments = map(os.fsdecode, ask.read().split(b"\0")[:-1])
    try:
        os.chdir(place)
        answer = globals()[name](*arguments)
    except Exception as error:
        answer = False
        with open(folder + "/err", "a") as err:
            err.write(f"{type(error).__name__}: {error}\n")
    with open(folder + "/answer", "w") as reply:
        reply.write("yes\n" if answer else "no\n")
