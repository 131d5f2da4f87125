// Drives Debian's chromium for Go tests: commands come as JSON lines on standard
// input, {id, do, …}, and answers go as {id, value} or {id, error} to standard output.
// Expressions are evaluated through the debugger, so the page's content security
// policy stays in force.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const POLL = 20; // ms
const AXE = readFileSync(new URL("./node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

const browser = await chromium.launch({ executablePath: process.argv[2], args: FLAGS });
const pages = [];

const commands = {
  // open shows a URL in a window of its own. init is a script that runs before the page's.
  async open({ url, width, height, scheme, scale, motion, init }) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: motion || null, deviceScaleFactor: scale || 1 });
    const page = await context.newPage();
    const debug = await context.newCDPSession(page);
    const host = new URL(url).host;
    const complaints = [];
    page.on("console", (m) => ["error", "warning"].includes(m.type()) && complaints.push(`${m.type()}: ${m.text()}`));
    page.on("pageerror", (e) => complaints.push(`exception: ${e.stack}`));
    page.on("requestfailed", (r) => complaints.push(`failed: ${r.url()} ${r.failure()?.errorText}`));
    page.on("request", (r) => new URL(r.url()).host !== host && !r.url().startsWith("data:") && complaints.push(`another host: ${r.url()}`));
    page.on("websocket", (w) => new URL(w.url()).host !== host && complaints.push(`another host: ${w.url()}`));
    if (init) await page.addInitScript(init);
    await page.goto(url);
    return pages.push({ page, debug, context, complaints }) - 1;
  },

  async eval({ page, code }) {
    const { result, exceptionDetails: bad } = await pages[page].debug.send("Runtime.evaluate",
      { expression: code, awaitPromise: true, returnByValue: true, allowUnsafeEvalBlockedByCSP: true });
    if (bad) throw new Error(bad.exception?.description ?? bad.text);
    return result.value ?? null;
  },

  // await waits until an expression is true. One that throws is not: the page may not
  // have come so far.
  async await({ page, code, timeout }) {
    const begun = Date.now();
    for (;;) {
      const [value, why] = await commands.eval({ page, code }).then((v) => [v, ""], (error) => [false, error.message]);
      if (value) return;
      if (Date.now() - begun > timeout) throw new Error(`never became true: ${code} ${why}`);
      await new Promise((resolve) => setTimeout(resolve, POLL));
    }
  },

  async press({ page, key }) { await pages[page].page.keyboard.press(key); },
  async type({ page, text }) { await pages[page].page.keyboard.type(text); },
  async click({ page, selector }) { await pages[page].page.click(selector); },
  async shot({ page, path }) { await pages[page].page.screenshot({ path }); },
  async size({ page, width, height }) { await pages[page].page.setViewportSize({ width, height }); },

  // heap is what JavaScript uses after a collection, in bytes.
  async heap({ page }) {
    await pages[page].debug.send("HeapProfiler.collectGarbage");
    return (await pages[page].debug.send("Runtime.getHeapUsage")).usedSize;
  },

  // axe lists what axe-core reports as violations in the page as it is shown now.
  async axe({ page }) {
    await commands.eval({ page, code: `void (globalThis.axe ?? (() => { ${AXE} })())` });
    return commands.eval({ page, code: `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
      violations.flatMap(({ id, help, nodes }) => nodes.map((n) => id + ": " + help + ": " + n.target.join(" ") + ": " + n.failureSummary)))` });
  },

  // complaints are what the console has said, and requests to other hosts; it forgets them.
  async complaints({ page }) { return pages[page].complaints.splice(0); },
  async close({ page }) { await pages[page].context.close(); },
};

process.stdout.write('{"id":0}\n');
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  commands[command.do](command).then(
    (value) => process.stdout.write(JSON.stringify({ id: command.id, value: value ?? null }) + "\n"),
    (error) => process.stdout.write(JSON.stringify({ id: command.id, error: String(error.stack ?? error) }) + "\n"));
}
await browser.close();
