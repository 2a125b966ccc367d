"""What is said to the server, taken down."""

from pymongo import monitoring

from duetime.stores.mongodb import connection


class Said(monitoring.CommandListener):
    """Takes down the commands of the stores that are opened from now on."""

    def __init__(self, monkeypatch):
        self.commands = []
        plain = connection.AsyncMongoClient

        def heard(*arguments, event_listeners, **options):
            return plain(*arguments, event_listeners=[*event_listeners, self], **options)

        monkeypatch.setattr(connection, "AsyncMongoClient", heard)

    def started(self, event):
        self.commands.append((event.command_name, event.command))

    def succeeded(self, event):
        if event.command_name == "update":
            self.commands.append(("updated", event.reply))

    def failed(self, event):
        pass
