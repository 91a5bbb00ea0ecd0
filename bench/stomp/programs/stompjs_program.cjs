// Drives a server by @stomp/stompjs: `node stompjs_program.cjs SERVER CHECK`, over WebSocket where the server has it.
//
// Where it has none, a small stand-in for WebSocket passes the bytes on to a TCP connection. The last line that is
// printed says what came out, as the programs in Python do it (scene.py).
"use strict";

const net = require("node:net");
const { Client, StompSocketState } = require("@stomp/stompjs");
const { WebSocket } = require("ws");

const HEADERS = { colon: "a:b", backslash: "a\\b", lines: "a\nb", script: "Größe 長さ", number: "007", empty: "" };
const PATIENCE_MS = 5000;
const QUIET_MS = 400;

const target = JSON.parse(process.argv[2]);
let names = 0;

class Wrong extends Error {}

/** As much of WebSocket as the library uses, over TCP. */
class TcpSocket {
  constructor(host, port) {
    this.url = `tcp://${host}:${port}`;
    this.binaryType = "arraybuffer";
    this.readyState = StompSocketState.CONNECTING;
    this.connection = net.createConnection(port, host);
    this.connection.setNoDelay(true);
    this.connection.on("connect", () => {
      this.readyState = StompSocketState.OPEN;
      this.onopen?.({});
    });
    this.connection.on("data", (data) => this.onmessage?.({ data: new Uint8Array(data).buffer }));
    this.connection.on("error", (error) => this.onerror?.(error));
    this.connection.on("close", () => {
      this.readyState = StompSocketState.CLOSED;
      this.onclose?.({ code: 1000, reason: "closed" });
    });
  }

  send(data) {
    this.connection.write(typeof data === "string" ? data : Buffer.from(data));
  }

  close() {
    this.readyState = StompSocketState.CLOSING;
    this.connection.end();
  }

  terminate() {
    this.connection.destroy();
  }
}

function socket() {
  if (target.web === null) return new TcpSocket(target.host, target.port);
  const [host, port] = target.web;
  return new WebSocket(`ws://${host}:${port}${target.web_path}`, ["v12.stomp", "v11.stomp", "v10.stomp"]);
}

/** Values that come, and that somebody waits for. */
class Inbox {
  constructor() {
    this.values = [];
    this.waiting = [];
  }

  put(value) {
    const next = this.waiting.shift();
    if (next) next(value);
    else this.values.push(value);
  }

  async get(what, withinMs = PATIENCE_MS) {
    if (this.values.length) return this.values.shift();
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.waiting = this.waiting.filter((each) => each !== answer);
        reject(new Wrong(`no ${what} came within ${withinMs} ms`));
      }, withinMs);
      const answer = (value) => {
        clearTimeout(late);
        resolve(value);
      };
      this.waiting.push(answer);
    });
  }
}

/** A connection with what came on it. */
class Session {
  constructor({ passcode, headers = {}, beatMs = 0 } = {}) {
    this.messages = new Inbox();
    this.errors = new Inbox();
    this.connects = new Inbox();
    this.disconnects = new Inbox();
    this.receipts = 0;
    const login = target.login ? { login: target.login, passcode: passcode ?? target.passcode } : {};
    this.client = new Client({
      webSocketFactory: () => (this.socket = socket()),
      connectHeaders: { host: target.virtual_host || target.host, ...login, ...headers },
      reconnectDelay: 0,
      heartbeatIncoming: beatMs,
      heartbeatOutgoing: beatMs,
      forceBinaryWSFrames: true,
      onConnect: (frame) => this.connects.put(frame),
      onStompError: (frame) => this.errors.put(frame),
      onDisconnect: (frame) => this.disconnects.put(frame),
    });
    this.client.activate();
  }

  static async open(options) {
    const session = new Session(options);
    await session.connects.get("CONNECTED");
    return session;
  }

  async send(destination, body, { headers = {}, ...more } = {}) {
    const content = typeof body === "string" ? { body } : { binaryBody: body };
    await this.receipted((receipt) =>
      this.client.publish({ destination, ...content, ...more, headers: { ...headers, receipt } }),
    );
  }

  async subscribe(destination, ack = "auto", headers = {}) {
    let subscription;
    await this.receipted((receipt) => {
      const keep = (message) => this.messages.put(message);
      subscription = this.client.subscribe(destination, keep, { ...headers, ack, receipt });
    });
    return subscription;
  }

  async receipted(action) {
    const receipt = `receipt-${++this.receipts}`;
    const inbox = new Inbox();
    this.client.watchForReceipt(receipt, (frame) => inbox.put(frame));
    action(receipt);
    return inbox.get("receipt");
  }

  async message() {
    return this.messages.get("message");
  }

  async bodies(number) {
    const bodies = [];
    while (bodies.length < number) bodies.push((await this.message()).body);
    return bodies;
  }

  async nothingComes() {
    const frame = await this.messages.get("message", QUIET_MS).catch(() => null);
    if (frame) throw new Wrong(`a message came: ${frame.body}`);
  }

  drop() {
    this.socket.terminate();
  }
}

function unique(prefix) {
  return `${prefix}${process.hrtime.bigint().toString(16)}.${++names}`;
}

const topicName = () => unique(`${target.topic_prefix}conformance.`);
const queueName = () => unique(`${target.queue_prefix}conformance.`);

function equal(found, wanted, what) {
  const [left, right] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (left !== right) throw new Wrong(`${what} is ${left}, not ${right}`);
}

async function subscribed() {
  const session = await Session.open();
  const topic = topicName();
  await session.subscribe(topic);
  return [session, topic];
}

async function consuming(ack) {
  const session = await Session.open();
  const queue = queueName();
  await session.subscribe(queue, ack);
  for (const body of ["1", "2", "3"]) await session.send(queue, body);
  return [session, queue];
}

async function left(queue, wanted) {
  const session = await Session.open();
  await session.subscribe(queue);
  equal((await session.bodies(wanted.length)).sort(), wanted, "what is left in the queue");
  await session.nothingComes();
}

async function acknowledged(mode, wanted) {
  const [session, queue] = await consuming(mode);
  const frames = [await session.message(), await session.message(), await session.message()];
  await session.receipted((receipt) => frames[1].ack({ receipt }));
  session.drop();
  await left(queue, wanted);
}

async function transaction(end, wanted) {
  const [session, topic] = await subscribed();
  const running = session.client.begin();
  // Without a receipt, which some servers give at COMMIT only.
  session.client.publish({ destination: topic, body: "inside", headers: { transaction: running.id } });
  await session.nothingComes();
  running[end]();
  await session.send(topic, "after");
  equal(await session.bodies(wanted.length), wanted, "the bodies");
}

const SCENES = {
  async connect() {
    const session = await Session.open();
    equal(session.client.connectedVersion, "1.2", "the version");
  },
  async text() {
    const [session, topic] = await subscribed();
    await session.send(topic, "Größe");
    const frame = await session.message();
    equal([frame.body, frame.headers.destination], ["Größe", topic], "the message");
  },
  async headers() {
    const [session, topic] = await subscribed();
    await session.send(topic, "x", { headers: HEADERS });
    const found = (await session.message()).headers;
    equal(Object.fromEntries(Object.keys(HEADERS).map((name) => [name, found[name]])), HEADERS, "the headers");
  },
  async "content-type"() {
    const [session, topic] = await subscribed();
    await session.send(topic, "{}", { headers: { "content-type": "application/json;charset=utf-8" } });
    equal((await session.message()).headers["content-type"], "application/json;charset=utf-8", "content-type");
  },
  async binary() {
    const [session, topic] = await subscribed();
    const bytes = Uint8Array.from({ length: 256 }, (_, each) => each);
    await session.send(topic, bytes);
    equal([...(await session.message()).binaryBody], [...bytes], "the body");
  },
  async receipt() {
    const session = await Session.open();
    await session.send(topicName(), "x");
  },
  async queue() {
    const queue = queueName();
    const session = await Session.open();
    for (const body of ["1", "2", "3"]) await session.send(queue, body);
    await left(queue, ["1", "2", "3"]);
  },
  client: () => acknowledged("client", ["3"]),
  "client-individual": () => acknowledged("client-individual", ["1", "3"]),
  async nack() {
    const [session] = await consuming("client-individual");
    const frames = [await session.message(), await session.message()];
    await session.receipted((receipt) => frames[0].nack({ receipt }));
    await session.receipted((receipt) => frames[1].ack({ receipt }));
  },
  commit: () => transaction("commit", ["inside", "after"]),
  abort: () => transaction("abort", ["after"]),
  async selector() {
    const session = await Session.open();
    const topic = topicName();
    await session.subscribe(topic, "auto", { selector: "colour = 'red' AND size > 9" });
    for (const [colour, size] of [["blue", "10"], ["red", "5"], ["red", "10"]]) {
      await session.send(topic, `${colour} ${size}`, { headers: { colour, size } });
    }
    equal(await session.bodies(1), ["red 10"], "the bodies");
    await session.nothingComes();
  },
  async durable() {
    const topic = topicName();
    const headers = { "client-id": unique("client") };
    const durable = { "activemq.subscriptionName": "durable" };
    const first = await Session.open({ headers });
    await first.subscribe(topic, "auto", durable);
    await first.client.deactivate();
    const sender = await Session.open();
    await sender.send(topic, "while away");
    const second = await Session.open({ headers });
    await second.subscribe(topic, "auto", durable);
    equal(await second.bodies(1), ["while away"], "the bodies");
  },
  async unsubscribe() {
    const session = await Session.open();
    const topic = topicName();
    const subscription = await session.subscribe(topic);
    subscription.unsubscribe();
    await session.send(topic, "x");
    await session.nothingComes();
  },
  async error() {
    const session = await Session.open();
    session.client.commit("no such transaction");
    const frame = await session.errors.get("ERROR");
    if (!frame.headers.message) throw new Wrong(`no message in ${JSON.stringify(frame.headers)}`);
  },
  async "wrong-passcode"() {
    const session = new Session({ passcode: "wrong" });
    await session.errors.get("ERROR");
  },
  async "heart-beat"() {
    const session = await Session.open({ beatMs: 500 });
    await new Promise((resolve) => setTimeout(resolve, 3000));
    await session.send(topicName(), "x");
  },
  async disconnect() {
    const session = await Session.open();
    await session.client.deactivate();
    await session.disconnects.get("receipt of DISCONNECT");
  },
};

SCENES[process.argv[3]]().then(
  () => tell("passed", ""),
  (error) => tell("failed", `${error.name}: ${error.message}`),
);

function tell(state, seen) {
  process.stdout.write(`\n${JSON.stringify({ state, seen })}\n`, () => process.exit(0));
}
