import assert from "node:assert/strict";
import test from "node:test";
import { Ring } from "../../../surfaces/web/static/ring.js";

const read = (ring, second) => [...ring.read(second, new Float64Array(ring.size))];

test("counts stand in the second that they were counted in", () => {
  const ring = new Ring(4);
  ring.add(100, 1);
  ring.add(100, 2);
  ring.add(102, 5);
  assert.deepEqual(read(ring, 102), [0, 3, 0, 5]);
  assert.deepEqual(read(ring, 103), [3, 0, 5, 0]);
});

test("what is older than the ring is forgotten, at once or by and by", () => {
  const ring = new Ring(3);
  for (let second = 10; second < 20; second += 1) ring.add(second, second);
  assert.deepEqual(read(ring, 19), [17, 18, 19]);
  assert.deepEqual(read(ring, 21), [19, 0, 0]);
  assert.deepEqual(read(ring, 1_000_000), [0, 0, 0]);
});

test("a second before the oldest is not counted, and a late one that has room is", () => {
  const ring = new Ring(3);
  ring.add(50, 1);
  ring.add(47, 9);
  ring.add(48, 2);
  assert.deepEqual(read(ring, 50), [2, 0, 1]);
});

test("it takes the same room after a million seconds", () => {
  const ring = new Ring(120);
  const { counts } = ring;
  for (let second = 1; second <= 1_000_000; second += 1) ring.add(second, 1);
  assert.equal(ring.counts, counts);
  assert.equal(ring.counts.length, 120);
  assert.equal(read(ring, 1_000_000).reduce((all, each) => all + each, 0), 120);
});
