"""The vector that the libraries of Standard Webhooks are tested with, and another secret."""

import base64

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
HEADERS = {"webhook-id": ID, "webhook-timestamp": str(AT), "webhook-signature": SIGNATURE}

OTHER = "whsec_" + base64.b64encode(bytes(range(32))).decode()
