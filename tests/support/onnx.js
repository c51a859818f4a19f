// Runs ONNX models in ONNX Runtime and compares with dawn9; status 1 if the results differ or nothing was compared.
//
//   node onnx.js logits MODEL.onnx LOGITS.safetensors    on the images or texts of `dawn9 eval --logits`: logits within
//                                                        1e-4 of the largest
//   node onnx.js perplexity RUN COLUMNS LENGTH HIDDEN    RUN.onnx on corpus/test.txt, cut into columns, LENGTH tokens at
//                                                        a time, carrying its states of HIDDEN units over: perplexity
//                                                        with a relative error of at most 1e-5 to RUN/result.json
const fs = require("fs");
const ort = require("onnxruntime-node");

// The header of a file of safetensors, and the bytes after it.
function open(path) {
  const file = fs.readFileSync(path), length = Number(file.readBigUInt64LE(0));
  return [JSON.parse(file.subarray(8, 8 + length)), file.subarray(8 + length)];
}

function read(path) {
  const [header, data] = open(path), tensors = {};
  for (const [name, { shape, data_offsets: [begin, end] }] of Object.entries(header))
    tensors[name] = { shape, bytes: Uint8Array.from(data.subarray(begin, end)) };
  return tensors;
}

async function compareLogits([model, path]) {
  const session = await ort.InferenceSession.create(model), theirs = read(path);
  const [name] = session.inputNames, { bytes, shape } = theirs[name];
  const data = name === "texts" ? BigInt64Array.from(new Int32Array(bytes.buffer), BigInt) : Float32Array.from(bytes);
  const { logits } = await session.run({ [name]: new ort.Tensor(name === "texts" ? "int64" : "float32", data, shape) });
  const wanted = new Float32Array(theirs.logits.bytes.buffer);
  if (logits.data.length !== wanted.length || !wanted.length) throw new Error(`${logits.data.length} logits, ${wanted.length} wanted`);
  let error = 0, largest = 0;
  wanted.forEach((value, i) => {
    error = Math.max(error, Math.abs(value - logits.data[i])); // NaN if either is NaN
    largest = Math.max(largest, Math.abs(value));
  });
  console.log(`logits: ${logits.dims[0]} ${name}, largest difference ${error.toExponential(1)} of ${largest.toPrecision(3)}`);
  return error <= 1e-4 * largest ? 0 : 1;
}

async function comparePerplexity([run, columns, length, hidden]) {
  [columns, length, hidden] = [columns, length, hidden].map(Number);
  const session = await ort.InferenceSession.create(run + ".onnx");
  const list = JSON.parse(open(run + "/model.safetensors")[0].__metadata__["dawn9.words"]);
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

const [command, ...words] = process.argv.slice(2), commands = { logits: compareLogits, perplexity: comparePerplexity };
commands[command](words).then((status) => process.exit(status), (error) => {
  console.error(String(error));
  process.exit(1);
});
