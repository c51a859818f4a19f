// Computes the perplexity of a language model on corpus/test.txt, cut into columns, in ONNX Runtime, and compares it
// with RUN/result.json.
//
//   node onnx_perplexity.js RUN COLUMNS LENGTH HIDDEN     runs RUN.onnx on LENGTH tokens at a time and carries its
//                                                         states of HIDDEN units over; status 1 if the relative
//                                                         difference exceeds 1e-5, or if the model has no states
const fs = require("fs");
const ort = require("onnxruntime-node");

function words(path) {
  const file = fs.readFileSync(path), length = Number(file.readBigUInt64LE(0));
  return JSON.parse(JSON.parse(file.subarray(8, 8 + length)).__metadata__["dawn9.words"]);
}

async function main([run, columns, length, hidden]) {
  [columns, length, hidden] = [columns, length, hidden].map(Number);
  const session = await ort.InferenceSession.create(run + ".onnx"), list = words(run + "/model.safetensors");
  const token = new Map(list.map((word, i) => [word, i]));
  const lines = fs.readFileSync("corpus/test.txt", "utf8").trimEnd().split("\n");
  const stream = lines.flatMap((line) => [...line.trim().split(/\s+/), "<eos>"]).map((word) => token.get(word));
  const rows = Math.floor(stream.length / columns), at = (row, column) => stream[column * rows + row];
  const states = session.inputNames.filter((name) => name !== "tokens");
  const feeds = Object.fromEntries(states.map((name) =>
    [name, new ort.Tensor("float32", new Float32Array(columns * hidden), [1, columns, hidden])]));
  let total = 0, counted = 0;
  for (let first = 0; first < rows - 1; first += length) {
    const steps = Math.min(length, rows - 1 - first), tokens = new BigInt64Array(steps * columns);
    for (let t = 0; t < steps; t++)
      for (let n = 0; n < columns; n++) tokens[t * columns + n] = BigInt(at(first + t, n));
    const results = await session.run({ ...feeds, tokens: new ort.Tensor("int64", tokens, [steps, columns]) });
    states.forEach((name) => { feeds[name] = results[name + ".next"]; });
    for (let t = 0; t < steps; t++)
      for (let n = 0; n < columns; n++, counted++) {
        const row = results.logits.data.subarray((t * columns + n) * list.length, (t * columns + n + 1) * list.length);
        total += Math.log(row.reduce((sum, logit) => sum + Math.exp(logit), 0)) - row[at(first + t + 1, n)];
      }
  }
  const got = Math.exp(total / counted), want = JSON.parse(fs.readFileSync(run + "/result.json")).perplexity;
  console.log(`perplexity ${got.toFixed(6)} of ${counted} words, ${states.length} states`);
  return Math.abs(got / want - 1) <= 1e-5 && states.length > 0 ? 0 : 1;
}

main(process.argv.slice(2)).then((status) => process.exit(status), (error) => {
  console.error(String(error));
  process.exit(1);
});
