// index.d.ts says what index.js is, and callers can use it as it says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import * as api from "padme-client";

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const base = { noEmit: true, skipDefaultLibCheck: true, target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [] };

/** compile returns what the compiler complains of. */
function compile(files, options) {
  const program = ts.createProgram(files, { ...base, ...options });
  return ts.getPreEmitDiagnostics(program).map((d) => {
    const at = d.file && `${d.file.fileName}:${d.file.getLineAndCharacterOfPosition(d.start).line + 1}: `;
    return (at ?? "") + ts.flattenDiagnosticMessageText(d.messageText, "\n");
  });
}

test("callers can use the types", () => {
  assert.deepEqual(compile([path("use.ts")], { strict: true, lib: ["lib.es2022.d.ts", "lib.dom.d.ts"] }), []);
});

test("the types name what the module has, and nothing else", () => {
  const program = ts.createProgram([path("../index.d.ts")], base);
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(program.getSourceFile(path("../index.d.ts")));
  const values = checker.getExportsOfModule(module).filter((s) => s.flags & ts.SymbolFlags.Value).map((s) => s.name);
  assert.deepEqual(values.sort(), Object.keys(api).sort());
});

test("the source is in order by its own types", () => {
  const complaints = compile([path("../index.js")], { allowJs: true, checkJs: true, skipLibCheck: true, lib: ["lib.esnext.d.ts", "lib.dom.d.ts"] });
  assert.deepEqual(complaints, []);
});
