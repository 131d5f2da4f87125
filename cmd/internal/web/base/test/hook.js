// Lets node find /base/…, which pages import by the path that their server has it at.
import { register } from "node:module";

const base = new URL("../", import.meta.url).href;
register("data:text/javascript," + encodeURIComponent(`
  export const resolve = (name, context, next) =>
    next(name.startsWith("/base/") ? ${JSON.stringify(base)} + name.slice(6) : name, context);
`));
