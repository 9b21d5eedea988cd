// `azure-storage`, the JavaScript SDK until 2020, through every feature.

import assert from "node:assert/strict";
import dns from "node:dns";

import { KEY, NAME, main, newName, port, require, test } from "./harness.mjs";

// Names of accounts lead to the server: of an endpoint's address the SDK takes the host only.
const HOST = ".table.localhost";
const { lookup } = dns;
dns.lookup = (name, ...rest) => lookup(name.endsWith(HOST) ? "127.0.0.1" : name, ...rest);

const azure = require("azure-storage");
const { TableBatch, TableQuery, TableUtilities, date } = azure;
const { entityGenerator: eg, PayloadFormat } = TableUtilities;

const endpoint = (suffix = "") => `http://${NAME}${suffix}${HOST}:${port}`;
const hosts = { primaryHost: endpoint(), secondaryHost: endpoint("-secondary") };
const service = azure.createTableService(NAME, KEY, hosts);

/** What a method gives: the SDK's methods call back. */
const call = (method, ...args) => callTo(service, method, ...args);
const callTo = (on, method, ...args) => new Promise((resolve, reject) =>
  on[method](...args, (error, result) => (error ? reject(error) : resolve(result))));

async function newTable() {
  const name = newName("t");
  await call("createTable", name);
  return name;
}

/** The error that a call must end in: its status and its code. */
async function expect(statusCode, code, work) {
  let result;
  try {
    result = await work();
  } catch (error) {
    assert.deepEqual([error.statusCode, error.code], [statusCode, code], `${error}`);
    return error;
  }
  assert.fail(`expected ${statusCode} ${code}, found ${JSON.stringify(result)}`);
}

const entity = (row, properties = {}) =>
  ({ PartitionKey: eg.String("p"), RowKey: eg.String(row), ...properties });

/** An entity's values, without what the service adds. */
function own({ Timestamp, ".metadata": metadata, ...properties }) {
  const values = Object.entries(properties).map(([name, { _: value }]) => [name, value]);
  return Object.fromEntries(values);
}

async function all(table, query = new TableQuery()) {
  const entries = [];
  let token = null;
  do {
    const page = await call("queryEntities", table, query, token);
    entries.push(...page.entries.map(own));
    token = page.continuationToken;
  } while (token);
  return entries;
}

test("tables_come_and_go", async () => {
  const name = newName("t");
  const created = async () => (await call("createTableIfNotExists", name)).created;
  assert.deepEqual([await created(), await created()], [true, false]);
  await expect(409, "TableAlreadyExists", () => call("createTable", name.toUpperCase()));
  assert.equal((await call("doesTableExist", name)).exists, true);
  const names = await call("listTablesSegmentedWithPrefix", name, null);
  assert.deepEqual(names.entries, [name]);
  await call("deleteTable", name);
  assert.equal(await call("deleteTableIfExists", name), false);
  assert.equal((await call("doesTableExist", name)).exists, false);
  await expect(404, "TableNotFound", () => all(name));
});

test("tables_are_listed_in_pages", async () => {
  const prefix = newName("t");
  const names = Array.from({ length: 7 }, (_, at) => `${prefix}${at}`);
  for (const name of names) await call("createTable", name);
  const found = [];
  let token = null;
  do {
    const options = { maxResults: 3 };
    const page = await call("listTablesSegmentedWithPrefix", prefix, token, options);
    found.push(...page.entries);
    token = page.continuationToken;
  } while (token);
  assert.deepEqual(found, names);
});

test("entities_come_and_go", async () => {
  const table = await newTable();
  const { ".metadata": { etag } } = await call("insertEntity", table, entity("r", { A: 1 }));
  await expect(409, "EntityAlreadyExists", () => call("insertEntity", table, entity("r")));
  const echo = await call("insertEntity", table, entity("e", { A: 1 }), { echoContent: true });
  assert.deepEqual(own(echo), { PartitionKey: "p", RowKey: "e", A: 1 });
  const tagged = (properties) => ({ ...entity("r", properties), ".metadata": { etag } });
  await call("replaceEntity", table, tagged({ B: 2 }));
  for (const method of ["replaceEntity", "mergeEntity", "deleteEntity"]) {
    await expect(412, "UpdateConditionNotSatisfied", () => call(method, table, tagged()));
  }
  const found = async () => own(await call("retrieveEntity", table, "p", "r"));
  await call("mergeEntity", table, entity("r", { C: eg.String("three") }));
  await call("insertOrMergeEntity", table, entity("r", { D: 4 }));
  assert.deepEqual(await found(), { PartitionKey: "p", RowKey: "r", B: 2, C: "three", D: 4 });
  await call("insertOrReplaceEntity", table, entity("r", { E: 5 }));
  assert.deepEqual(await found(), { PartitionKey: "p", RowKey: "r", E: 5 });
  await call("deleteEntity", table, entity("r"));
  for (const method of ["replaceEntity", "mergeEntity", "deleteEntity"]) {
    await expect(404, "ResourceNotFound", () => call(method, table, entity("r")));
  }
  await expect(404, "ResourceNotFound", found);
});

test("every_type_comes_back", async () => {
  const table = await newTable();
  const given = entity("r", {
    text: eg.String("é 名前 \u{1F600} \" \\ \r\n \u0001"), empty: eg.String(""),
    yes: eg.Boolean(true), int: eg.Int32(-5), big: eg.Int64("9223372036854775807"),
    real: eg.Double(0.1), five: eg.Double(5), nan: eg.Double(NaN), infinite: eg.Double(-Infinity),
    moment: eg.DateTime(new Date("2008-10-01T15:27:34.483Z")),
    guid: eg.Guid("c9da6455-213d-42c9-9a79-3e9149a57833"),
    bytes: eg.Binary(Buffer.from([0, 1, 254, 255])),
  });
  await call("insertEntity", table, { ...given, nothing: eg.String(null) });
  const forms = ["MINIMAL_METADATA", "FULL_METADATA"].map((name) => PayloadFormat[name]);
  for (const payloadFormat of forms) {
    const found = await call("retrieveEntity", table, "p", "r", { payloadFormat });
    assert.deepEqual(own(found), own(given), payloadFormat);
    for (const name of ["big", "nan", "moment", "guid", "bytes"]) {
      assert.equal(found[name].$, given[name].$, payloadFormat);
    }
  }
  const bare = { payloadFormat: PayloadFormat.NO_METADATA };
  const { big, bytes } = own(await call("retrieveEntity", table, "p", "r", bare));
  assert.deepEqual([big, bytes], ["9223372036854775807", "AAH+/w=="]);
});

test("keys_of_any_text", async () => {
  const table = await newTable();
  for (const key of ["", " ", "it's", "é名\u{1F600}", "a%20b", "a+b", "a&b", "x',RowKey='y"]) {
    const keys = { PartitionKey: eg.String(key), RowKey: eg.String(key) };
    await call("insertEntity", table, keys);
    await call("mergeEntity", table, { ...keys, A: 1 });
    assert.equal((await call("retrieveEntity", table, key, key)).A._, 1, key);
    await call("deleteEntity", table, keys);
  }
  assert.deepEqual(await all(table), []);
});

test("queries", async () => {
  const table = await newTable();
  const row = (number) => `${number}`.padStart(2, "0");
  for (let number = 0; number < 25; number++) {
    await call("insertEntity", table, entity(row(number), { N: number }));
  }
  const rows = async (query) => (await all(table, query)).map((it) => it.RowKey);
  assert.deepEqual(await rows(new TableQuery().where("N gt ?", 22).or("N eq ?", 3)), ["03", "23", "24"]);
  const numbers = Array.from({ length: 25 }, (_, number) => row(number));
  assert.deepEqual(await rows(new TableQuery().top(10)), numbers);
  const one = new TableQuery().select("N").where("RowKey eq ?", "07");
  assert.deepEqual(await all(table, one), [{ N: 7 }]);
  const error = await expect(400, "InvalidInput", () => rows(new TableQuery().where("aaa bbb ccc")));
  assert.match(error.message, /Syntax error at position 7/);
});

test("transactions", async () => {
  const table = await newTable();
  const text = "é\r\n\r\nHTTP/1.1 400 Bad Request";
  let batch = new TableBatch();
  for (const row of "0123") batch.insertEntity(entity(row, { A: text }), { echoContent: row === "1" });
  const done = await call("executeBatch", table, batch);
  assert.equal(own(done[1].entity).A, text);
  batch = new TableBatch();
  batch.replaceEntity({ ...entity("0", { B: 1 }), ".metadata": done[0].entity[".metadata"] });
  batch.mergeEntity(entity("1", { B: 1 }));
  batch.deleteEntity(entity("2"));
  batch.insertOrReplaceEntity(entity("3", { B: 1 }));
  batch.insertOrMergeEntity(entity("é 'k", { B: 1 }));
  await call("executeBatch", table, batch);
  const wanted = [["0", undefined], ["1", text], ["3", undefined], ["é 'k", undefined]]
    .map(([RowKey, A]) => ({ PartitionKey: "p", RowKey, ...(A && { A }), B: 1 }));
  assert.deepEqual(await all(table), wanted);
  for (const [status, code, change] of [
    [409, "EntityAlreadyExists", () => batch.insertEntity(entity("1"))],
    [404, "ResourceNotFound", () => batch.deleteEntity(entity("none"))],
    [412, "UpdateConditionNotSatisfied", () => batch.replaceEntity(
      { ...entity("1"), ".metadata": done[0].entity[".metadata"] })],
  ]) {
    batch = new TableBatch();
    batch.insertEntity(entity("new"));
    change();
    const error = await expect(status, code, () => call("executeBatch", table, batch));
    assert.match(error.message, /^1:/);
  }
  assert.deepEqual(await all(table), wanted);
});

test("signatures_and_policies", async () => {
  const table = await newTable();
  await call("insertEntity", table, entity("r"));
  assert.deepEqual((await call("getTableAcl", table)).signedIdentifiers, {});
  const Expiry = date.daysFromNow(1);
  const policies = { one: { Permissions: "r", Expiry }, empty: {} };
  await call("setTableAcl", table, policies);
  const stored = (await call("getTableAcl", table)).signedIdentifiers;
  assert.deepEqual([Object.keys(stored), stored.one.Permissions], [["one", "empty"], "r"]);

  const holder = (policy) => azure.createTableServiceWithSas(
    hosts, service.generateSharedAccessSignature(table, policy));
  const whole = holder({ AccessPolicy: { Permissions: "raud", Start: date.daysFromNow(-1), Expiry } });
  await callTo(whole, "insertOrReplaceEntity", table, entity("s"));
  await callTo(whole, "deleteEntity", table, entity("s"));
  const range = { StartPk: "p", StartRk: "s", EndPk: "p", EndRk: "z" };
  const part = holder({ AccessPolicy: { Permissions: "r", Expiry, ...range } });
  const reader = holder({ Id: "one" });
  for (const [on, count] of [[reader, 1], [part, 0]]) {
    const { entries } = await callTo(on, "queryEntities", table, new TableQuery(), null);
    assert.equal(entries.length, count);
    await expect(403, "AuthorizationPermissionMismatch", () =>
      callTo(on, "deleteEntity", table, entity("r")));
  }
  await call("setTableAcl", table, {});
  await expect(403, "AuthenticationFailed", () => callTo(reader, "retrieveEntity", table, "p", "r"));
});

test("service_properties_and_statistics", async () => {
  const rule = {
    AllowedMethods: ["GET", "PUT"], AllowedOrigins: ["http://a"], AllowedHeaders: ["x-a"],
    ExposedHeaders: ["x-ms-*"], MaxAgeInSeconds: 5,
  };
  const before = await call("getServiceProperties");
  const HourMetrics = {
    Version: "1.0", Enabled: true, IncludeAPIs: true, RetentionPolicy: { Enabled: true, Days: 5 },
  };
  await call("setServiceProperties", { ...before, HourMetrics, Cors: { CorsRule: [rule] } });
  const found = await call("getServiceProperties");
  assert.deepEqual([found.HourMetrics, found.Cors.CorsRule], [HourMetrics, [rule]]);
  assert.deepEqual(found.Logging, before.Logging);
  await call("setServiceProperties", { ...before, Cors: {} });
  const secondary = { locationMode: azure.StorageUtilities.LocationMode.SECONDARY_ONLY };
  assert.equal((await call("getServiceStats", secondary)).GeoReplication.Status, "live");
});

await main("azure-storage");
