/* Where the scripts of the console begin; without them every page works, and is as old as it is. */

import * as confirm from "./confirm.js";
import * as copy from "./copy.js";
import * as follow from "./follow.js";
import * as keys from "./keys.js";
import * as proof from "./proof.js";
import * as rate from "./rate.js";
import { Refresh } from "./refresh.js";
import { Stream } from "./stream.js";
import * as theme from "./theme.js";
import * as time from "./time.js";

const NOTICE_MS = 20_000;

theme.start();
const main = document.getElementById("main");
if (main) start();

function start() {
  const signedOut = () => stream.out();
  const refresh = new Refresh(main, attach, signedOut);
  const heard = ({ fresh, freshRefused }) => {
    rate.count(fresh, freshRefused);
    refresh.wanted();
  };
  const stream = new Stream(Number(document.body.dataset.seq) || 0, heard, time.serverTime);

  /* What a script adds to a page, after each time that the page was made. */
  function attach() {
    time.show();
    rate.attach();
    follow.attach();
    copy.attach();
    proof.attach(() => refresh.now());
  }

  keepNotice();
  time.start();
  rate.start();
  copy.start();
  keys.start();
  confirm.start(() => refresh.now(), signedOut);
  refresh.start();
  attach();
  stream.start();
}

/* What became of a form is told on the page that follows, once: it is not there when that is fetched again. */
function keepNotice() {
  const notice = main.querySelector(":scope > p.told[role=status]:first-child:not(:only-child)");
  if (!notice) return;
  notice.dataset.script = "";
  setTimeout(() => notice.remove(), NOTICE_MS);
}
