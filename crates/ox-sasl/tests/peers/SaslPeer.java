// One side of a SASL exchange with Java's mechanisms, over standard input and output: one line per token in base64, "null"
// for none, then "DONE <authorization id>" or "FAILED <reason>".
//
// java SaslPeer.java client|server DIGEST-MD5|GSSAPI <protocol> <server name> <user or principal> <password or keytab>

import java.io.*;
import java.security.PrivilegedExceptionAction;
import java.util.*;
import javax.security.auth.Subject;
import javax.security.auth.callback.*;
import javax.security.auth.login.*;
import javax.security.sasl.*;

public class SaslPeer {
    static final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    static String side, mechanism, protocol, server, user, secret;

    public static void main(String[] args) throws Exception {
        side = args[0];
        mechanism = args[1];
        protocol = args[2];
        server = args[3];
        user = args[4];
        secret = args[5];
        try {
            String id = mechanism.equals("GSSAPI") ? Subject.doAs(login(), (PrivilegedExceptionAction<String>) SaslPeer::run) : run();
            System.out.println("DONE " + id);
        } catch (Throwable error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            System.out.println("FAILED " + cause);
        }
    }

    static Subject login() throws Exception {
        Map<String, String> options = new HashMap<>();
        options.put("useKeyTab", "true");
        options.put("keyTab", secret);
        options.put("principal", user);
        options.put("storeKey", "true");
        options.put("isInitiator", side.equals("client") ? "true" : "false");
        var entry = new AppConfigurationEntry("com.sun.security.auth.module.Krb5LoginModule",
            AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options);
        Configuration configuration = new Configuration() {
            public AppConfigurationEntry[] getAppConfigurationEntry(String name) {
                return new AppConfigurationEntry[] {entry};
            }
        };
        LoginContext context = new LoginContext("peer", new Subject(), null, configuration);
        context.login();
        return context.getSubject();
    }

    static String run() throws Exception {
        String[] mechanisms = {mechanism};
        if (side.equals("client")) {
            SaslClient client = Sasl.createSaslClient(mechanisms, user, protocol, server, null, SaslPeer::handle);
            send(client.hasInitialResponse() ? client.evaluateChallenge(new byte[0]) : new byte[0]);
            while (!client.isComplete()) {
                byte[] response = client.evaluateChallenge(receive());
                if (response != null || !client.isComplete()) {
                    send(response);
                }
            }
            return user;
        }
        SaslServer acceptor = Sasl.createSaslServer(mechanism, protocol, server, null, SaslPeer::handle);
        while (!acceptor.isComplete()) {
            send(acceptor.evaluateResponse(receive()));
        }
        return acceptor.getAuthorizationID();
    }

    static void handle(Callback[] callbacks) {
        for (Callback callback : callbacks) {
            if (callback instanceof NameCallback) {
                ((NameCallback) callback).setName(user);
            } else if (callback instanceof PasswordCallback) {
                ((PasswordCallback) callback).setPassword(secret.toCharArray());
            } else if (callback instanceof RealmCallback) {
                ((RealmCallback) callback).setText(((RealmCallback) callback).getDefaultText());
            } else if (callback instanceof AuthorizeCallback) {
                ((AuthorizeCallback) callback).setAuthorized(true);
            }
        }
    }

    static void send(byte[] token) {
        System.out.println(token == null ? "null" : Base64.getEncoder().encodeToString(token));
        System.out.flush();
    }

    static byte[] receive() throws IOException {
        return Base64.getDecoder().decode(in.readLine());
    }
}
