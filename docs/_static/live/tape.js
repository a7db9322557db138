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
const sign = each(Math.sign);
const total = (value) => [value].flat().reduce((sum, one) => sum + one, 0);

// PyTorch's name for the node, the value, and a rule per input: what it gets of the gradient g.
// The rules are operations of the tape themselves, so that a gradient has a gradient.
const operations = {
  add: ["AddBackward0", each((a, b) => a + b), (g) => g, (g) => g],
  sub: ["SubBackward0", each((a, b) => a - b), (g) => g, (g) => run.neg(g)],
  mul: ["MulBackward0", each((a, b) => a * b), (g, a, b) => run.mul(g, b), (g, a) => run.mul(g, a)],
  div: ["DivBackward0", each((a, b) => a / b), (g, a, b) => run.div(g, b), divisorRule],
  pow: ["PowBackward0", each((a, n) => a ** n), powerRule],
  neg: ["NegBackward0", each((a) => -a), (g) => run.neg(g)],
  exp: ["ExpBackward0", each(Math.exp), (g, a, out) => run.mul(g, out)],
  sin: ["SinBackward0", each(Math.sin), (g, a) => run.mul(g, run.cos(a))],
  cos: ["CosBackward0", each(Math.cos), (g, a) => run.neg(run.mul(g, run.sin(a)))],
  tanh: ["TanhBackward0", each(Math.tanh), (g, a, out) => run.mul(g, run.sub(1, run.mul(out, out)))],
  relu: ["ReluBackward0", each((a) => Math.max(a, 0)), (g, a, out) => run.mul(g, sign(out.value))],
  sum: ["SumBackward0", total, (g, a) => run.expand(g, a.value)],
  mean: ["MeanBackward0", (a) => total(a) / size(a), meanRule],
  expand: ["ExpandBackward0", (a, like) => each(() => a)(like), (g) => run.sum(g)],
};
const savesNothing = /^(Add|Sub|Neg|Sum|Mean)B/;

function divisorRule(g, a, b, out) {
  return run.neg(run.div(run.mul(g, out), b));
}

function meanRule(g, a) {
  return run.expand(run.div(g, size(a.value)), a.value);
}

function powerRule(g, a, n) {
  return n.value === 0 ? run.mul(g, 0) : run.mul(run.mul(g, n), run.pow(a, n.value - 1));
}

const run = { detach: (input) => new Tensor(input.value) };
for (const [name, [node, compute, ...rules]] of Object.entries(operations))
  run[name] = (...inputs) => {
    const tensors = inputs.map((input) => (input instanceof Tensor ? input : new Tensor(input)));
    return new Tensor(compute(...tensors.map(({ value }) => value)), { node, rules }, tensors);
  };

// Return the gradient of a result for each tensor on the way. As in PyTorch's engine a node waits
// for all its gradients; of those that are ready, leaves go first, then the newest. `visit` gets
// each node in turn, and each of its edges with the gradient that goes along it.
function backward(root, visit = () => {}) {
  const missing = new Map();
  const edges = (node) => [...node.inputs.entries()].filter(([, input]) => input.requiresGrad);
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
      const gradient = size(passed.value) > size(input.value) ? run.sum(passed) : passed;
      arrived.set(input, arrived.has(input) ? run.add(arrived.get(input), gradient) : gradient);
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
  const call = (name, ...inputs) => (run[name] && name !== "expand" ? run[name](...inputs) : fail(name));
  const operand = () => {
    const token = next() ?? fail();
    at++;
    if (token === "-") return run.neg(sum(3));
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
