// A program that takes a lock, and says what it believes.
// usage: node holder.mjs URL LOCK
import { connect } from "padme-client";

const client = await connect(process.argv[2], { id: `holder-${process.pid}` });
const hold = await client.lock(process.argv[3]);
console.log(`in ${hold.fence} ${Date.now()}`);
for (;;) {
  try {
    hold.check();
  } catch (error) {
    console.log(`${error.name} ${hold.fence} ${Date.now()} ${error.message}`);
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 5));
}
await client.close();
