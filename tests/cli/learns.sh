# The built-in drawings are learned to more than 95% within 20 seconds, from the start of the process.
. "$(dirname "$0")/lib.sh"

accepts "$dawn9" train "$source/configs/synthetic.yaml" --out run --json
json "$out" 'd["accuracy"] > 95'
json "$out" 'd["process_seconds"] < 20'
verdict
