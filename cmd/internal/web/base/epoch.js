// Epochs and fences: integers that may exceed 2^53, so BigInt.

/** parseEpoch reads "number.tie" (decimal, base 36); null for anything else. */
export function parseEpoch(text) {
  const m = /^(\d{1,20})\.([0-9a-z]{1,13})$/.exec(text ?? "");
  if (!m) return null;
  let tie = 0n;
  for (const c of m[2]) tie = tie * 36n + BigInt(parseInt(c, 36));
  return { number: BigInt(m[1]), tie };
}

/** compareEpochs orders epochs; null is before all. */
export function compareEpochs(a, b) {
  if (!a || !b) return (a ? 1 : 0) - (b ? 1 : 0);
  if (a.number !== b.number) return a.number < b.number ? -1 : 1;
  return a.tie === b.tie ? 0 : a.tie < b.tie ? -1 : 1;
}

/** parseFence reads a decimal fence; 0n means none, or nonsense. */
export function parseFence(text) {
  return /^\d{1,20}$/.test(text ?? "") ? BigInt(text) : 0n;
}
