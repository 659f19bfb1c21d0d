import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.security.KeyStore;
import java.security.cert.X509Certificate;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * One side of TLS connections with the JDK's own implementation. Arguments: mode, key store, trust store, protocol, and
 * the port for a client. A server prints its port, accepts two connections, and sends the subject of the client's
 * certificate. A client connects twice, and prints what it receives.
 */
public class Peer {
    private static final char[] PASSWORD = "changeit".toCharArray();
    private static final int CONNECTIONS = 2;

    public static void main(String[] args) throws Exception {
        SSLContext context = context(args[1], args[2]);
        String[] protocols = {args[3]};
        if (args[0].equals("server")) {
            serve(context, protocols);
        } else {
            connect(context, protocols, Integer.parseInt(args[4]));
        }
    }

    private static SSLContext context(String keyStore, String trustStore) throws Exception {
        KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
        keys.init(load(keyStore), PASSWORD);
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(load(trustStore));
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    private static KeyStore load(String path) throws Exception {
        KeyStore store = KeyStore.getInstance(path.endsWith(".jks") ? "JKS" : "PKCS12");
        try (FileInputStream in = new FileInputStream(path)) {
            store.load(in, PASSWORD);
        }
        return store;
    }

    private static void serve(SSLContext context, String[] protocols) throws Exception {
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        try (SSLServerSocket listener =
                (SSLServerSocket) context.getServerSocketFactory().createServerSocket(0, 1, loopback)) {
            listener.setNeedClientAuth(true);
            listener.setEnabledProtocols(protocols);
            System.out.println(listener.getLocalPort());
            for (int i = 0; i < CONNECTIONS; i++) {
                try (SSLSocket socket = (SSLSocket) listener.accept()) {
                    X509Certificate peer = (X509Certificate) socket.getSession().getPeerCertificates()[0];
                    socket.getOutputStream().write((peer.getSubjectX500Principal().getName() + "\n").getBytes("UTF-8"));
                    socket.getOutputStream().flush();
                    socket.getInputStream().read();
                }
            }
        }
    }

    private static void connect(SSLContext context, String[] protocols, int port) throws Exception {
        for (int i = 0; i < CONNECTIONS; i++) {
            try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket("localhost", port)) {
                SSLParameters parameters = socket.getSSLParameters();
                parameters.setEndpointIdentificationAlgorithm("HTTPS");
                parameters.setProtocols(protocols);
                socket.setSSLParameters(parameters);
                BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream(), "UTF-8"));
                System.out.println(in.readLine());
            }
        }
    }
}
