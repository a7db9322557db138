"use strict";

// A tape like PyTorch's: a tensor remembers the operation that computed it, and its inputs.
// Values are numbers or short vectors.
class Tensor {
  static count = 0;

  constructor(value, operation = null, inputs = []) {
    Object.assign(this, { value, operation, inputs, number: Tensor.count++ });
    this.requiresGrad = inputs.some((input) => input.requiresGrad);
  }
}

const leaf = (text, value) => Object.assign(new Tensor(value), { text, requiresGrad: true });

// Extend a function of numbers to vectors, where a number goes with every element.
const each = (compute) => (...values) => {
  const size = values.find(Array.isArray)?.length;
  const pick = (n) => values.map((value) => (Array.isArray(value) ? value[n] : value));
  return size ? Array.from({ length: size }, (_, n) => compute(...pick(n))) : compute(...values);
};
const size = (value) => [value].flat().length;
const total = (value) => [value].flat().reduce((sum, one) => sum + one, 0);

// The value of each operation, and a rule per input: what it gets of the gradient g. Rules are
// operations of the tape themselves, so that a gradient has a gradient.
const operations = {
  add: [each((a, b) => a + b), (g) => g, (g) => g],
  sub: [each((a, b) => a - b), (g) => g, (g) => op.neg(g)],
  mul: [each((a, b) => a * b), (g, a, b) => op.mul(g, b), (g, a) => op.mul(g, a)],
  div: [each((a, b) => a / b), (g, a, b) => op.div(g, b), (g, a, b, c) => op.neg(op.div(op.mul(g, c), b))],
  pow: [each((a, n) => a ** n), (g, a, n) => op.mul(op.mul(g, n), n.value ? op.pow(a, n.value - 1) : 1)],
  neg: [each((a) => -a), (g) => op.neg(g)],
  exp: [each(Math.exp), (g, a, out) => op.mul(g, out)],
  sin: [each(Math.sin), (g, a) => op.mul(g, op.cos(a))],
  cos: [each(Math.cos), (g, a) => op.neg(op.mul(g, op.sin(a)))],
  tanh: [each(Math.tanh), (g, a, out) => op.mul(g, op.sub(1, op.mul(out, out)))],
  relu: [each((a) => Math.max(a, 0)), (g, a, out) => op.mul(g, each(Math.sign)(out.value))],
  sum: [total, (g, a) => op.expand(g, a.value)],
  mean: [(a) => total(a) / size(a), (g, a) => op.expand(op.div(g, size(a.value)), a.value)],
  expand: [(a, like) => each(() => a)(like), (g) => op.sum(g)],
};
const SAVES_NOTHING = ["add", "sub", "neg", "sum", "mean"];

const op = { detach: (input) => new Tensor(input.value) };
for (const [name, [compute, ...rules]] of Object.entries(operations))
  op[name] = (...inputs) => {
    const tensors = inputs.map((input) => (input instanceof Tensor ? input : new Tensor(input)));
    return new Tensor(compute(...tensors.map(({ value }) => value)), { name, rules }, tensors);
  };

// The inputs that get a gradient, with their places.
const edges = ({ inputs }) => [...inputs.entries()].filter(([, input]) => input.requiresGrad);

// Return the gradient of a result for each tensor on the way. As in PyTorch's engine a node waits
// for all its gradients; of those that are ready, leaves go first, then the newest. `visit` gets
// each node in turn, and each of its edges with the gradient that goes along it.
function backward(root, visit = () => {}) {
  const missing = new Map();
  const expect = (node) => {
    for (const [, input] of edges(node)) {
      if (!missing.has(input)) expect(input);
      missing.set(input, (missing.get(input) ?? 0) + 1);
    }
  };
  expect(root);
  const arrived = new Map([[root, new Tensor(1)]]);
  const ready = [root];
  const rank = ({ operation, number }) => (operation ? number : Infinity);
  while (ready.length) {
    const node = ready.sort((a, b) => (rank(a) < rank(b) ? -1 : 1)).pop();
    visit(node, arrived);
    for (const [place, input] of edges(node)) {
      const passed = node.operation.rules[place](arrived.get(node), ...node.inputs, node);
      const gradient = size(passed.value) > size(input.value) ? op.sum(passed) : passed;
      arrived.set(input, arrived.has(input) ? op.add(arrived.get(input), gradient) : gradient);
      visit(node, arrived, place, gradient);
      missing.set(input, missing.get(input) - 1);
      if (!missing.get(input)) ready.push(input);
    }
  }
  return arrived;
}

const TOKEN = /\*\*|\d+\.?\d*(e-?\d+)?|\.\d+|torch\.\w+|\.\w+\(\)|[A-Za-z_]\w*|\S/g;
const SYMBOLS = { "+": ["add", 1], "-": ["sub", 1], "*": ["mul", 2], "/": ["div", 2], "**": ["pow", 3] };

// Compute an expression of Python, such as torch.sin(w) * x or (w ** 2).mean().
function evaluate(source, names) {
  const tokens = [...source.matchAll(TOKEN)];
  let at = 0;
  const next = () => tokens[at]?.[0];
  const fail = (what = next() ?? source) => {
    throw new Error(what);
  };
  const call = (name, ...inputs) => (op[name] && name !== "expand" ? op[name](...inputs) : fail(name));
  const operand = () => {
    const token = next() ?? fail();
    at++;
    if (token === "-") return op.neg(sum(3));
    if (token === "(") return closed(sum(1));
    if (token.startsWith("torch.")) return call(token.slice(6), operand());
    if (/^\.?\d/.test(token)) return new Tensor(Number(token));
    return names[token] ?? (at--, fail());
  };
  const closed = (inside) => (next() === ")" ? (at++, inside) : fail());
  // Read an operand and all that binds at least as strongly as `least`.
  const sum = (least) => {
    const from = tokens[at]?.index;
    const named = (tensor) => {
      const { index, 0: last } = tokens[at - 1];
      tensor.text ??= source.slice(from, index + last.length);
      return tensor;
    };
    let left = named(operand());
    while (next()?.endsWith("()")) left = named(call(tokens[at++][0].slice(1, -2), left));
    while (SYMBOLS[next()]?.[1] >= least) {
      const [name, strength] = SYMBOLS[tokens[at++][0]];
      const right = sum(name === "pow" ? 3 : strength + 1);
      if (name === "pow" && right.requiresGrad) fail();
      left = named(call(name, left, right));
    }
    return left;
  };
  const result = sum(1);
  return next() ? fail() : result;
}
