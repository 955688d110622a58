import assert from "node:assert/strict";
import test from "node:test";
import { restMs } from "../../../surfaces/web/static/refresh.js";
import { ago } from "../../../surfaces/web/static/time.js";

test("a page is fetched at most once a second, and a slow server is left alone for longer", () => {
  assert.equal(restMs(5), 1000);
  assert.equal(restMs(2000), 6000);
});

test("moments are told in one unit, before and after now", () => {
  const told = [0, 999, 3_000, 59_999, 60_000, 7_200_000, 200_000_000, -5_000].map(ago);
  assert.deepEqual(told, ["now", "now", "3 s ago", "59 s ago", "1 min ago", "2 h ago", "2 d ago", "in 5 s"]);
});
