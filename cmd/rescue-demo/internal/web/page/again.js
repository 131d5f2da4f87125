// The next run is at the same address, with another broker and another key.
import { loadConfig } from "/base/connection.js";

const LOOK = 2000; // ms between two looks

/** againWhen returns a function that looks for another run until online() is true, and loads the page again if there is one. */
export function againWhen(config, online) {
  const same = JSON.stringify(config);
  let looking = false;
  return async () => {
    if (looking) return;
    looking = true;
    while (!online()) {
      await new Promise((passed) => setTimeout(passed, LOOK));
      try {
        if (!online() && JSON.stringify(await loadConfig()) !== same) location.reload();
      } catch {
        // nobody is there yet
      }
    }
    looking = false;
  };
}
