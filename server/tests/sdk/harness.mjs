// A small runner: tests are functions; the last line counts them.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// SDKs are installed beside the build, not beside this file.
export const require = createRequire(pathToFileURL(`${process.env.SDK_MODULES}/`));

export const port = Number(process.argv[2]);
export const NAME = "devstoreaccount1";
export const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const only = process.argv.slice(3);
const tests = [];
export const test = (name, work) => tests.push([name, work]);

export const newName = (prefix) => prefix + randomUUID().replaceAll("-", "").slice(0, 20);

export async function main(sdk) {
  let passed = 0;
  let failed = 0;
  for (const [name, work] of tests) {
    if (only.length && !only.includes(name)) continue;
    const began = performance.now();
    try {
      await work();
      passed++;
      console.log(`ok ${sdk} ${name} ${((performance.now() - began) / 1000).toFixed(2)} s`);
    } catch (error) {
      failed++;
      console.log(`FAILED ${sdk} ${name}\n${error.stack ?? error}`);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed > 0 ? 1 : 0);
}
