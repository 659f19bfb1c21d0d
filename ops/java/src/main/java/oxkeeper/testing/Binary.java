package oxkeeper.testing;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** The program of the server: that of the system property {@code oxkeeper.binary}, or the one in this library. */
final class Binary {
    private static String extracted;

    private Binary() {
    }

    static synchronized String path() throws IOException {
        String given = System.getProperty("oxkeeper.binary");
        if (given != null) {
            return given;
        }
        if (extracted == null || !new File(extracted).isFile()) {
            extracted = extract();
        }
        return extracted;
    }

    private static String extract() throws IOException {
        String system = System.getProperty("os.name");
        String machine = System.getProperty("os.arch").replace("amd64", "x86_64");
        String resource = "/oxkeeper/binaries/" + machine + "/oxkeeper";
        try (InputStream content = system.equals("Linux") ? Binary.class.getResourceAsStream(resource) : null) {
            if (content == null) {
                throw new IOException("this library has no server for " + system + " on " + machine
                    + "; name one with the system property oxkeeper.binary");
            }
            Path directory = Files.createTempDirectory("oxkeeper-binary-");
            Path path = directory.resolve("oxkeeper");
            directory.toFile().deleteOnExit();
            path.toFile().deleteOnExit();
            Files.copy(content, path, StandardCopyOption.REPLACE_EXISTING);
            if (!path.toFile().setExecutable(true)) {
                throw new IOException("cannot make " + path + " executable");
            }
            return path.toString();
        }
    }
}
