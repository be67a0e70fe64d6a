"use strict";
// The arithmetic of the page: the engine's seconds in, tokens per iteration and speedups out (perfmodel/speculation/iteration.py).

/** The payload's arrays over [batch, context, gamma]; an axis of length 1 holds for all. Little-endian, as browsers are. */
function decode(pool) {
  return pool.map(({ shape, f32 }) => {
    const bytes = Uint8Array.from(atob(f32), (letter) => letter.charCodeAt(0));
    return { shape, values: new Float32Array(bytes.buffer) };
  });
}

/** Omega = 1 + alpha + ... + alpha^gamma: tokens an iteration gains where each sequence advances by its own count. */
function tokensPerIteration(alpha, gamma) {
  let omega = 1;
  for (let j = 1, survival = alpha; j <= gamma; j += 1, survival *= alpha) omega += survival;
  return omega;
}

/** One case of the payload: model, devices and what the draft reads. b and c are places on the axes, g is gamma. */
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

  /** Draft steps, verification and overhead in seconds; a baseline step where nothing is drafted. */
  iteration(b, c, g) {
    if (g === 0) return this.pass("baseline", "predicted_s", b, c, 0);
    const drafting = this.case.draft_passes[g] * this.pass("draft", "predicted_s", b, c, g);
    return drafting + this.pass("verify", "predicted_s", b, c, g) + this.overhead(b, c);
  }

  speedup(alpha, b, c, g) {
    if (g === 0) return 1;
    return (tokensPerIteration(alpha, g) * this.pass("baseline", "predicted_s", b, c, 0)) / this.iteration(b, c, g);
  }

  /** The draft length with the largest speedup, the smaller one on a tie: from 0 (do not speculate), or from 1. */
  best(alpha, b, c, from = 0) {
    let winner = from;
    for (let g = from + 1, most = this.speedup(alpha, b, c, from); g <= this.lastGamma; g += 1) {
      const here = this.speedup(alpha, b, c, g);
      if (here > most) [winner, most] = [g, here];
    }
    return winner;
  }

  /** [low, high] around a speedup, at most its tokens an iteration; null where the calibration states no error. */
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

  /** Per cell [b][c]: gamma, speedup, and `drafting`, the speedup with at least one drafted token. gamma null: the best. */
  map(alpha, gamma) {
    return this.content.batch.map((_, b) => this.content.context.map((_, c) => {
      const g = gamma ?? this.best(alpha, b, c);
      const drafting = this.speedup(alpha, b, c, g || this.best(alpha, b, c, 1));
      return { gamma: g, speedup: this.speedup(alpha, b, c, g), drafting };
    }));
  }

  /**
   * The context from which on drafting g tokens pays at one batch: null, or 0 at the left end. What an iteration saves,
   * unlike its speedup, is nearly a straight line in the context, so that it may be read between two of them.
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

/** Where a value lies on an axis of rising numbers, in places and by its logarithm; null outside. */
function placeOn(axis, value) {
  if (value === null || value < axis[0] || value > axis[axis.length - 1]) return null;
  const above = axis.findIndex((mark) => mark >= value);
  return above === 0 ? 0 : above - 1 + Math.log(value / axis[above - 1]) / Math.log(axis[above] / axis[above - 1]);
}
