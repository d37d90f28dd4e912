import { afterEach, expect, test } from "vitest";
import { Pool } from "../../../provider/ssh/pool";
import { execVerb } from "../../../provider/ssh/run";
import { Sshd } from "../../fixtures/sshd";
import { requires } from "../../support/requirements";

const SHA = "a".repeat(64);
const list = { verb: "list" } as const;
let sshd: Sshd | undefined;
let pool = new Pool();

afterEach(async () => {
  await pool.close();
  pool = new Pool();
  await sshd?.stop();
});

requires(
  "root",
  "namespaces",
  "sshd",
)("S-05 limits of the server", () => {
  test.each([1, 2, 10])(
    "S-05 50 verbs at once succeed with MaxSessions %i, on one connection",
    async (sessions) => {
      sshd = await Sshd.start({ config: [`MaxSessions ${sessions}`, "MaxStartups 2:100:3"] });
      sshd.installFixture(SHA, "answers.sh");
      const target = sshd.target();
      const verbs = Array.from({ length: 50 }, () =>
        pool.use(target, (connection) => execVerb(connection, list, { program: SHA })),
      );
      const results = await Promise.all(verbs);
      expect(results.filter((result) => result !== "not installed" && result.ok)).toHaveLength(50);
      expect(sshd.log.match(/Accepted publickey/g)).toHaveLength(1);
      if (sessions === 10) expect(sshd.log).not.toContain("no more sessions");
    },
    60_000,
  );
});

requires(
  "root",
  "namespaces",
  "sshd",
)("S-05 many operators at once", () => {
  test("S-05 20 connections at once get through a small MaxStartups", async () => {
    sshd = await Sshd.start({ config: ["MaxStartups 3:100:3"] });
    sshd.installFixture(SHA, "answers.sh");
    const target = { ...sshd.target(), tries: 20 };
    const pools = Array.from({ length: 20 }, () => new Pool());
    try {
      const verbs = pools.map((each) => each.use(target, (connection) => execVerb(connection, list, { program: SHA })));
      expect(await Promise.all(verbs)).toHaveLength(20);
      expect(sshd.log).toContain("MaxStartups");
    } finally {
      await Promise.all(pools.map((each) => each.close()));
    }
  }, 60_000);
});

requires(
  "root",
  "namespaces",
  "sshd",
)("the pool", () => {
  test("makes a new connection when the old one has died", async () => {
    sshd = await Sshd.start();
    sshd.installFixture(SHA, "answers.sh");
    const target = { ...sshd.target(), tries: 5 };
    const verb = () => pool.use(target, (connection) => execVerb(connection, list, { program: SHA }));
    await verb();
    await sshd.down();
    await sshd.up();
    expect(await verb()).toMatchObject({ ok: true });
  }, 20_000);

  test("closes an idle connection", async () => {
    sshd = await Sshd.start();
    sshd.installFixture(SHA, "answers.sh");
    const quick = new Pool(50);
    const closed = await quick.use(sshd.target(), async (connection) => {
      await execVerb(connection, list, { program: SHA });
      return { closed: connection.closed };
    });
    await closed.closed;
    await quick.close();
  });
});
