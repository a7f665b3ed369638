//! A page in headless Chromium, driven by the DevTools protocol over its pipe.
#![allow(dead_code, reason = "each test program uses a part")]

use egeria_harness::testing::skip;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::common::{Background, eventually};

/// Ends with this test.
pub struct Browser {
    _process: Background,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Value,
    asked: u64,
}

impl Browser {
    /// Opens a page; `directory` is for what the browser keeps. `None` where Chromium is not installed.
    pub fn open(url: &str, directory: &Path) -> Option<Browser> {
        if Command::new("chromium").arg("--version").output().is_err() {
            skip("chromium is missing; apt-get install chromium");
            return None;
        }
        // The protocol is spoken on descriptors 3 and 4.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 >/dev/null", "sh"]);
        shell.args(["--headless", "--no-sandbox", "--disable-gpu"]);
        shell.args(["--remote-debugging-pipe", "--no-first-run"]);
        shell.args(["--disable-background-networking", "--disable-sync"]);
        shell.args(["--disable-component-update", "--disable-dev-shm-usage"]);
        shell.arg(format!("--user-data-dir={}", directory.display()));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Background(shell.stderr(Stdio::null()).spawn().unwrap());
        let mut browser = Browser {
            requests: process.0.stdin.take().unwrap(),
            answers: BufReader::new(process.0.stdout.take().unwrap()),
            _process: process,
            session: Value::Null,
            asked: 0,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        browser.session = attached["sessionId"].clone();
        browser.call("Page.navigate", json!({"url": url}));
        Some(browser)
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let mut request = json!({"id": self.asked, "method": method, "params": parameters});
        if !self.session.is_null() {
            request["sessionId"] = self.session.clone();
        }
        self.requests
            .write_all(format!("{request}\0").as_bytes())
            .unwrap();
        loop {
            let mut message = Vec::new();
            self.answers.read_until(0, &mut message).unwrap();
            assert_eq!(message.pop(), Some(0), "the browser ended");
            let message: Value = serde_json::from_slice(&message).unwrap();
            // Others are events.
            if message["id"] == self.asked {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// What an expression of the page's script is worth.
    pub fn value(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) {
        eventually(expression, || self.value(expression) == true);
    }

    /// All text and structure that the page has now.
    pub fn document(&mut self) -> String {
        let html = self.value("document.documentElement.outerHTML");
        html.as_str().unwrap().to_owned()
    }

    /// A window of that many CSS pixels.
    pub fn resize(&mut self, width: u32, height: u32) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}),
        );
    }

    /// Presses and releases a key (`Tab`, `Enter`) as a user does.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            if key == "Enter" {
                event["text"] = json!("\r");
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Keeps a picture of the page as a PNG in base64 where `EGERIA_TEST_PICTURES` names a directory.
    pub fn keep_picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("EGERIA_TEST_PICTURES") else {
            return;
        };
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let path = Path::new(&directory).join(format!("{name}.png.base64"));
        std::fs::write(path, picture["data"].as_str().unwrap()).unwrap();
    }
}
