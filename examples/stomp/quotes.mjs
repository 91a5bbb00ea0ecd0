// Quotes over WebSocket, with @stomp/stompjs: asks for some by a selector, publishes a few, and shows which came.
//
//     npm ci
//     node quotes.mjs
//     node quotes.mjs ws://10.0.0.1:61614/        # another broker
//
// In a browser it is the same without the import of "ws"; the broker's setting `origins` must name your page.
import { Client } from "@stomp/stompjs";
import { WebSocket } from "ws";

// Browsers and newer versions of Node have it.
globalThis.WebSocket ??= WebSocket;

const TOPIC = "/topic/stocks";
// SQL: the broker sends only what meets it.
const SELECTOR = "symbol = 'YHOO' AND price BETWEEN 15 AND 20.5";
const QUOTES = [
  { symbol: "YHOO", price: "18.2" },
  { symbol: "IBM", price: "19.0" },
  { symbol: "YHOO", price: "25.0" },
  { symbol: "YHOO", price: "20.5" },
];
const WANTED = 2;

let seen = 0;
let receipts = 0;

const client = new Client({
  brokerURL: process.argv[2] ?? "ws://127.0.0.1:61614/",
  // connectHeaders: { login: "trader", passcode: "the token of this client" },
  heartbeatIncoming: 10000,
  heartbeatOutgoing: 10000,
  // If the connection ends, connect again after a second; onConnect is then called again, so it subscribes again.
  reconnectDelay: 1000,
  onConnect: subscribe,
  onStompError: (frame) => console.error("the broker says:", frame.headers.message),
});

function subscribe() {
  // The receipt says that the subscription is in force: whatever is published from then on comes.
  client.watchForReceipt("subscribed", publish);
  client.subscribe(TOPIC, show, { selector: SELECTOR, receipt: "subscribed" });
}

function publish() {
  QUOTES.forEach((quote, number) => {
    const receipt = `quote-${number}`;
    // The receipt says that the message is on a disk. What has none when the connection ends, publish again.
    client.watchForReceipt(receipt, () => endIfDone((receipts += 1)));
    // All headers are texts; the broker makes a number of 18.2, so that selectors can compare it.
    client.publish({ destination: TOPIC, headers: { ...quote, receipt }, body: `${quote.symbol} costs ${quote.price}` });
  });
}

function show(message) {
  console.log(message.body);
  endIfDone((seen += 1));
}

function endIfDone() {
  if (receipts === QUOTES.length && seen === WANTED) {
    console.log("all receipts are here");
    client.deactivate();
  }
}

client.activate();
