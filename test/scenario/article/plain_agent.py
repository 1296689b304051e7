"""A web server that knows nothing of Agent-Reach: JSON in, JSON out, standard library only."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Plain(BaseHTTPRequestHandler):
    def do_POST(self):
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        body = json.dumps({"words": len(text.split())}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9201), Plain).serve_forever()
