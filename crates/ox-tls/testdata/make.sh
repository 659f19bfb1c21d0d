#!/bin/sh
# Creates all files of this directory again. Needs openssl 3 and a JDK from 16 on (keytool, java).
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
days=36500
password=changeit
rm -f ./*.pem ./*.p12 ./*.jks ./*.jceks ./*.txt

# A CA, a server key of RSA and one of ECDSA, both with all names of a server.
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/ca.key" -out ca.pem -days $days \
    -subj "/C=US/O=Example/CN=Test CA" 2>/dev/null
cat > "$work/server.ext" <<X
basicConstraints=CA:FALSE
subjectAltName=DNS:localhost,DNS:zk*.example.com,IP:127.0.0.1,IP:::1
crlDistributionPoints=URI:http://crl.example.com/ca.crl
X
issue() { # name, subject, options for the key
    name=$1 subject=$2; shift 2
    openssl req -newkey "$@" -nodes -keyout "$work/$name.key" -out "$work/$name.csr" -subj "$subject" 2>/dev/null
    openssl x509 -req -in "$work/$name.csr" -CA ca.pem -CAkey "$work/ca.key" -days $days -extfile "$work/server.ext" \
        -set_serial "0x$(openssl rand -hex 8)" -out "$work/$name.crt" 2>/dev/null
}
issue rsa "/C=US/O=Example/CN=server" rsa:2048
issue ec "/C=US/O=Example/CN=client" ec -pkeyopt ec_paramgen_curve:P-256

# PEM: all forms of a private key.
chain() { cat "$1" "$work/$2.crt" ca.pem; }
chain "$work/rsa.key" rsa > pkcs8.pem
openssl rsa -in "$work/rsa.key" -traditional -out "$work/rsa.pkcs1" 2>/dev/null
chain "$work/rsa.pkcs1" rsa > pkcs1.pem
openssl ec -in "$work/ec.key" -out "$work/ec.sec1" 2>/dev/null
chain "$work/ec.sec1" ec > sec1.pem
chain "$work/ec.key" ec > ec-pkcs8.pem
openssl pkcs8 -topk8 -in "$work/rsa.key" -passout pass:$password -out "$work/rsa.enc"
chain "$work/rsa.enc" rsa > encrypted.pem
openssl pkcs8 -topk8 -in "$work/ec.key" -passout pass:$password -v2 aes-128-cbc -v2prf hmacWithSHA1 -out "$work/ec.enc"
chain "$work/ec.enc" ec > encrypted-sha1.pem
openssl pkcs8 -topk8 -in "$work/ec.key" -passout pass:$password -v1 PBE-SHA1-3DES -out "$work/ec.v1"
chain "$work/ec.v1" ec > encrypted-3des.pem
openssl pkcs8 -topk8 -in "$work/ec.key" -passout pass:$password -scrypt -out "$work/ec.scrypt"
chain "$work/ec.scrypt" ec > encrypted-scrypt.pem
openssl ec -in "$work/ec.key" -aes128 -passout pass:$password -out "$work/ec.proc" 2>/dev/null
chain "$work/ec.proc" ec > encrypted-proc-type.pem
{ cat "$work/rsa.key" ca.pem "$work/rsa.crt"; } > ca-first.pem

# PKCS12 of openssl.
export12() { openssl pkcs12 -export -inkey "$work/rsa.key" -in "$work/rsa.crt" -certfile ca.pem -name server "$@"; }
export12 -passout pass:$password -out openssl.p12
export12 -passout pass:$password -legacy -out openssl-legacy.p12
export12 -passout pass:$password -legacy -keypbe PBE-SHA1-2DES -certpbe PBE-SHA1-RC2-128 -macalg sha512 \
    -out openssl-2des.p12
export12 -passout pass:$password -keypbe aes-192-cbc -certpbe NONE -out openssl-aes192.p12
export12 -passout pass: -out openssl-no-password.p12
export12 -passout pass:$password -nomac -out openssl-no-mac.p12
openssl pkcs12 -export -nokeys -in ca.pem -passout pass:$password -out trust-openssl.p12

# PKCS12 and JKS of keytool: imported keys, trusted certificates, and keys that keytool creates itself.
import() { # destination, type, flags for the JVM
    keytool -importkeystore -srckeystore openssl.p12 -srcstoretype PKCS12 -srcstorepass $password -destkeystore "$1" \
        -deststoretype "$2" -deststorepass $password -noprompt $3 2>/dev/null
}
trust() {
    keytool -importcert -file ca.pem -alias ca -keystore "$1" -storetype "$2" -storepass $password -noprompt $3 2>/dev/null
}
legacy=-J-Dkeystore.pkcs12.legacy
import keytool.p12 PKCS12 ""
import keytool-legacy.p12 PKCS12 $legacy
import keytool.jks JKS ""
import keytool.jceks JCEKS ""
cp keytool.p12 pkcs12-called-jks.jks
trust trust.p12 PKCS12 ""
trust trust-legacy.p12 PKCS12 $legacy
trust trust.jks JKS ""
generate() { # destination, alias, type, options of the key
    file=$1 alias=$2 type=$3; shift 3
    keytool -genkeypair -keystore "$file" -storetype "$type" -alias "$alias" -storepass $password -validity $days \
        -dname "CN=$alias,O=Example,C=US" -ext san=dns:localhost,ip:127.0.0.1 "$@" 2>/dev/null
}
generate self-signed.jks self JKS -keypass $password -keyalg EC -groupname secp384r1
generate two-keys.p12 rsa PKCS12 -keyalg RSA -keysize 2048
generate two-keys.p12 ec PKCS12 -keyalg EC -groupname secp256r1
generate ed25519.p12 ed PKCS12 -keyalg Ed25519
generate key-password.jks other JKS -keypass different -keyalg EC -groupname secp256r1
generate dsa.jks dsa JKS -keypass $password -keyalg DSA -keysize 2048
generate unicode.jks unicode JKS -keypass $password -keyalg EC -groupname secp256r1
keytool -storepasswd -keystore unicode.jks -storetype JKS -storepass $password -new "pässwörd€" 2>/dev/null
keytool -keypasswd -keystore unicode.jks -storetype JKS -storepass "pässwörd€" -alias unicode -keypass $password \
    -new "pässwörd€" 2>/dev/null
export_certificate() { # store, type, alias
    keytool -exportcert -rfc -keystore "$1" -storetype "$2" -alias "$3" -storepass $password 2>/dev/null
}
export_certificate self-signed.jks JKS self > self-signed-trust.pem
{ export_certificate two-keys.p12 PKCS12 rsa; export_certificate two-keys.p12 PKCS12 ec; } > two-keys-trust.pem
# A self-signed certificate that is its own trust anchor, as openssl makes it (CA:TRUE).
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/self.key" -out "$work/self.crt" \
    -days $days -subj "/CN=localhost" -addext "subjectAltName=DNS:localhost" 2>/dev/null
cat "$work/self.key" "$work/self.crt" > self-signed.pem

# Subjects with everything that RFC 2253 escapes, and what Java makes of them.
cat > "$work/req.cnf" <<X
[req]
distinguished_name=dn
utf8=yes
string_mask=utf8only
[dn]
X
subject() { # mask, subject
    sed "s/utf8only/$1/" "$work/req.cnf" > "$work/masked.cnf"
    openssl req -x509 -new -key "$work/ec.key" -config "$work/masked.cnf" -utf8 -days $days -subj "$2" >> subjects.pem
}
subject utf8only '/C=US/O=Example/CN=client'
subject utf8only '/C=US/ST=California/L=San Jose/street=1 Main St/O=Example, Inc./OU=A\+B/CN=a "quoted" \\ name'
subject utf8only '/DC=com/DC=example/UID=jdoe/CN=John Doe'
subject utf8only '/CN=multi+UID=valued/O=first+OU=second'
subject utf8only '/CN=#hash; less<greater>equal=sign'
subject utf8only '/CN=  leading and trailing  '
subject utf8only '/CN=Zoë 東京 😀'
subject utf8only '/emailAddress=a@example.com/serialNumber=123/title=Dr/SN=Doe/GN=John/CN=other types'
subject utf8only '/CN=first/CN=last'
subject utf8only '/CN=under_score@*.example.com|~^'
subject MASK:2048 '/CN=Zoë in BMP/O=Example'
subject MASK:4 '/CN=T61 text/O=Example'
subject MASK:4 '/CN=Zoë in T61'
subject nombstr '/C=US/CN=printable'
cat > "$work/Subjects.java" <<'X'
import java.io.FileInputStream;
import java.io.PrintStream;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;

public class Subjects {
    public static void main(String[] files) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        for (Certificate certificate : factory.generateCertificates(new FileInputStream(files[0]))) {
            out.println(((X509Certificate) certificate).getSubjectX500Principal().getName());
        }
    }
}
X
java "$work/Subjects.java" subjects.pem > subjects.txt
