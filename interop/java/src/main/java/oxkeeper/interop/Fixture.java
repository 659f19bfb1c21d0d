package oxkeeper.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** The server under test, a proxy before it, and the port that disturbs both. */
record Fixture(String server, String proxy, String control) {

    /** Sends a control command and waits until it has taken effect. */
    void command(String command) throws IOException {
        String answer = ask(command);
        if (!answer.equals("ok")) {
            throw new IOException(command + ": " + answer);
        }
    }

    /** Kills and restarts the server; false where the server is not ours to restart. */
    boolean restart() throws IOException {
        String answer = ask("restart");
        if (answer.equals("error: not our server")) {
            return false;
        }
        if (!answer.equals("ok")) {
            throw new IOException("restart: " + answer);
        }
        return true;
    }

    private String ask(String command) throws IOException {
        int colon = control.lastIndexOf(':');
        try (Socket socket = new Socket(control.substring(0, colon), Integer.parseInt(control.substring(colon + 1)))) {
            socket.getOutputStream().write((command + "\n").getBytes(StandardCharsets.US_ASCII));
            return new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8)).readLine();
        }
    }
}
