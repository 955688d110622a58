/* Counts by the second, for the last so many seconds; it takes the same room for ever. */

export class Ring {
  constructor(size) {
    this.size = size;
    this.counts = new Float64Array(size);
    this.newest = 0; // the second that was counted last
  }

  /* Count in this second; one that is too old is not counted. */
  add(second, count) {
    this.turn(second);
    if (second > this.newest - this.size) this.counts[second % this.size] += count;
  }

  /* The counts up to this second, the oldest first, into an array of our size. */
  read(second, into) {
    this.turn(second);
    for (let place = 0; place < this.size; place += 1) {
      into[place] = this.counts[(second + 1 + place) % this.size];
    }
    return into;
  }

  turn(second) {
    const steps = Math.min(this.size, second - this.newest);
    for (let step = 0; step < steps; step += 1) this.counts[(second - step) % this.size] = 0;
    this.newest = Math.max(this.newest, second);
  }
}
