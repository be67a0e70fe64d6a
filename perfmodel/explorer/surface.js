"use strict";
// Computes tokens per iteration and speedups from the seconds of the payload, as perfmodel/speculation/iteration.py does.

/** The arrays of the payload over [batch, context, gamma], as little-endian floats. An axis of length 1 has the same value everywhere. */
function decode(pool) {
  return pool.map(({ shape, f32 }) => {
    const bytes = Uint8Array.from(atob(f32), (letter) => letter.charCodeAt(0));
    return { shape, values: new Float32Array(bytes.buffer) };
  });
}

/** The tokens that a sequence gains per iteration: Omega = 1 + alpha + ... + alpha^gamma. */
function tokensPerIteration(alpha, gamma) {
  let omega = 1;
  for (let j = 1, survival = alpha; j <= gamma; j += 1, survival *= alpha) omega += survival;
  return omega;
}

/** One case of the payload: a model, its devices and its draft. b and c are indices of the batch and the context, g is gamma. */
class Surface {
  constructor(content, arrays, number) {
    this.content = content;
    this.arrays = arrays;
    this.case = content.cases[number];
    this.lastGamma = this.case.last_gamma;
  }

  at(number, b, c, g) {
    const { shape: [batches, contexts, gammas], values } = this.arrays[number];
    return values[((batches > 1 ? b : 0) * contexts + (contexts > 1 ? c : 0)) * gammas + (gammas > 1 ? g : 0)];
  }

  /** One term of a baseline step, draft step or verification, in seconds. */
  pass(name, term, b, c, g) {
    const arrays = name === "draft" ? this.case.draft_step : this.case.target;
    return this.at(arrays[term], b, c, name === "baseline" ? 0 : g);
  }

  overhead(b, c) {
    return this.at(this.case.overhead_s, b, c, 0);
  }

  /** The seconds of an iteration: draft steps, verification and overhead. At gamma 0, those of a baseline step. */
  iteration(b, c, g) {
    if (g === 0) return this.pass("baseline", "predicted_s", b, c, 0);
    const drafting = this.case.draft_passes[g] * this.pass("draft", "predicted_s", b, c, g);
    return drafting + this.pass("verify", "predicted_s", b, c, g) + this.overhead(b, c);
  }

  speedup(alpha, b, c, g) {
    if (g === 0) return 1;
    return (tokensPerIteration(alpha, g) * this.pass("baseline", "predicted_s", b, c, 0)) / this.iteration(b, c, g);
  }

  /** The smallest draft length with the largest speedup, from 0 (do not speculate) or from 1. */
  best(alpha, b, c, from = 0) {
    let winner = from;
    for (let g = from + 1, most = this.speedup(alpha, b, c, from); g <= this.lastGamma; g += 1) {
      const here = this.speedup(alpha, b, c, g);
      if (here > most) [winner, most] = [g, here];
    }
    return winner;
  }

  /** The interval [low, high] of a speedup; null if the calibration states no error. A speedup is at most the tokens per iteration. */
  interval(speedup, alpha, b, c, g) {
    if (this.case.log_error === null) return null;
    if (g === 0) return [speedup, speedup];
    const factor = Math.exp(this.content.z * this.at(this.case.log_error, b, c, g));
    const tokens = tokensPerIteration(alpha, g);
    const extra = Math.max(1 - speedup / tokens, this.content.least_extra);
    const middle = speedup * Math.exp(this.case.log_middle * extra);
    return [Math.min(middle / factor, speedup), Math.max(Math.min(middle * factor, tokens), speedup)];
  }

  largestBatch(c, g) {
    return this.at(this.case.max_batch, 0, c, g);
  }

  fits(b, c, g) {
    return this.content.batch[b] <= this.largestBatch(c, g);
  }

  /** For each cell [b][c]: gamma, speedup, and `drafting`, the speedup with at least one drafted token. A null gamma means the best one. */
  map(alpha, gamma) {
    return this.content.batch.map((_, b) => this.content.context.map((_, c) => {
      const g = gamma ?? this.best(alpha, b, c);
      const drafting = this.speedup(alpha, b, c, g || this.best(alpha, b, c, 1));
      return { gamma: g, speedup: this.speedup(alpha, b, c, g), drafting };
    }));
  }

  /**
   * The context from which drafting g tokens pays off at one batch; 0 if it does at the left end, null if it never does. The
   * seconds that an iteration saves are nearly linear in the context, so they are interpolated; the speedup is not linear.
   */
  breakEven(alpha, b, g) {
    const gained = tokensPerIteration(alpha, g);
    const saved = this.content.context.map((_, c) => gained * this.pass("baseline", "predicted_s", b, c, 0) - this.iteration(b, c, g));
    const c = saved.findIndex((here) => here >= 0);
    if (c <= 0) return c === 0 ? 0 : null;
    const [from, to] = [this.content.context[c - 1], this.content.context[c]];
    return from + (to - from) * saved[c - 1] / (saved[c - 1] - saved[c]);
  }
}

/** The fractional index of a value on an axis of rising numbers, interpolated in its logarithm; null outside the axis. */
function placeOn(axis, value) {
  if (value === null || value < axis[0] || value > axis[axis.length - 1]) return null;
  const above = axis.findIndex((mark) => mark >= value);
  return above === 0 ? 0 : above - 1 + Math.log(value / axis[above - 1]) / Math.log(axis[above] / axis[above - 1]);
}
