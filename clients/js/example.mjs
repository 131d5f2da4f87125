// usage: node example.mjs [URL]
import { connect, Lost } from "padme-client";

const client = await connect(process.argv[2] ?? "mqtt://127.0.0.1");
try {
  await client.withLock("crane", { priority: 5, timeout: 30_000 }, async (hold) => {
    console.log(`in with fence ${hold.fence}`);
    for (let meter = 1; meter <= 3; meter++) {
      hold.check(); // right before each effect: throws if the lock was lost
      console.log(`down ${meter}`);
    }
  });
} catch (error) {
  if (error instanceof Lost) console.error("stop the crane:", error.message);
  else console.error(error.message);
  process.exitCode = 1;
}
await client.close();
