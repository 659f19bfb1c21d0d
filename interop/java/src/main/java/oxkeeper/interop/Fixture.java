package oxkeeper.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** The server under test, a proxy in front of it, and the control port that injects faults. */
record Fixture(String server, String proxy, String control) {

    /** Sends a control command and waits for its reply, which follows its effect. */
    void command(String command) throws IOException {
        String reply = send(command);
        if (!reply.equals("ok")) {
            throw new IOException(command + ": " + reply);
        }
    }

    /** Kills and restarts the server. Returns false if xtask did not start it. */
    boolean restart() throws IOException {
        String reply = send("restart");
        if (reply.equals("error: not our server")) {
            return false;
        }
        if (!reply.equals("ok")) {
            throw new IOException("restart: " + reply);
        }
        return true;
    }

    private String send(String command) throws IOException {
        int colon = control.lastIndexOf(':');
        try (Socket socket = new Socket(control.substring(0, colon), Integer.parseInt(control.substring(colon + 1)))) {
            socket.getOutputStream().write((command + "\n").getBytes(StandardCharsets.US_ASCII));
            return new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8)).readLine();
        }
    }
}
