// Runs an ONNX model in ONNX Runtime on the images or texts of `dawn9 eval --logits` and compares the logits.
//
//   node onnx_logits.js MODEL.onnx LOGITS.safetensors      status 1 if they differ by more than 1e-4 of the largest logit,
//                                                          or if nothing was compared
const fs = require("fs");
const ort = require("onnxruntime-node");

function read(path) {
  const file = fs.readFileSync(path), length = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, 8 + length)), tensors = {};
  for (const [name, { shape, data_offsets: [begin, end] }] of Object.entries(header))
    tensors[name] = { shape, bytes: Uint8Array.from(file.subarray(8 + length + begin, 8 + length + end)) };
  return tensors;
}

async function main([model, path]) {
  const session = await ort.InferenceSession.create(model), theirs = read(path);
  const [name] = session.inputNames, { bytes, shape } = theirs[name];
  const data = name === "texts" ? BigInt64Array.from(new Int32Array(bytes.buffer), BigInt) : Float32Array.from(bytes);
  const { logits } = await session.run({ [name]: new ort.Tensor(name === "texts" ? "int64" : "float32", data, shape) });
  const wanted = new Float32Array(theirs.logits.bytes.buffer);
  if (logits.data.length !== wanted.length || !wanted.length) throw new Error(`${logits.data.length} logits, ${wanted.length} wanted`);
  let error = 0, largest = 0;
  wanted.forEach((value, i) => {
    const difference = Math.abs(value - logits.data[i]);
    error = difference <= error ? error : difference; // NaN stays
    largest = Math.max(largest, Math.abs(value));
  });
  console.log(`logits: ${logits.dims[0]} ${name}, largest difference ${error.toExponential(1)} of ${largest.toPrecision(3)}`);
  return error <= 1e-4 * largest ? 0 : 1;
}

main(process.argv.slice(2)).then((status) => process.exit(status), (error) => {
  console.error(String(error));
  process.exit(1);
});
