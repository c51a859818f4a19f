# The area under the curve equals scikit-learn's within 1e-12, in 1,000 random cases with ties. Needs scikit-learn.
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 -c 'import sklearn' 2>/dev/null || skips sklearn "Debian's package is python3-sklearn"
cat >cases.py <<'PYTHON'
import random
from sklearn.metrics import roc_auc_score
draw = random.Random(1)
for case in range(1000):
    count, values = draw.randint(2, 200), draw.choice((1, 2, 5, 50, 10**9))
    labels = [0, 1] + [int(draw.random() < 0.3) for i in range(count - 2)]
    logits = [draw.randint(-values, values) / draw.choice((1, 7)) + label for label in labels]
    print(count, repr(float(roc_auc_score(labels, logits))))
    print(*(f"{label} {logit!r}" for label, logit in zip(labels, logits)))
PYTHON
/usr/bin/python3 cases.py >cases || fail "no cases"
export DAWN9_AREAS="$PWD/cases"
runs "$(dirname "$dawn9")/tests/test_unit" measure # cmocka reports on standard error
says 'compared 1000 areas'
verdict
